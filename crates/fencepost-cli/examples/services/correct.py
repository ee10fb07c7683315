#!/usr/bin/env python3
"""The correct service once more, in Python without any library, to show that a receiver needs nothing of ours.

    python3 correct.py bank.db 8080 [FLOOR]
"""

import errno
import json
import re
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KNOWN_EPOCH = 0
STATUS = {"applied": 200, "replayed": 200, "missing_token": 428, "malformed": 400, "wrong_domain": 403,
          "stale_token": 412, "operation_conflict": 422, "unknown_epoch": 503}
SCHEMA = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS account (domain TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS fence (domain TEXT PRIMARY KEY, token INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS floor (token INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS operation
        (domain TEXT, id TEXT, request TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (domain, id));
"""


def connect():
    # Transactions are begun by hand; a writer waits for another one instead of failing.
    return sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        db = connect()
        row = db.execute("SELECT value FROM account WHERE domain = ?", [self.domain()]).fetchone()
        db.close()
        self.answer(200 if row else 404, json.dumps({"value": row[0]}) if row else "")

    def do_write(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        db = connect()
        try:
            db.execute("BEGIN IMMEDIATE")
            verdict, text = self.decide(db, body)
            db.execute("COMMIT")
        except (ValueError, KeyError, TypeError):
            verdict, text = "malformed", ""
        finally:
            db.close()
        self.answer(STATUS[verdict], text, verdict)

    do_PUT = do_DELETE = do_POST = do_write

    def decide(self, db, body):
        token, domain = self.headers.get("Fencepost-Token"), self.domain()
        if token is None:
            return "missing_token", ""
        if not re.fullmatch("[1-9][0-9]{0,18}", token, re.ASCII) or int(token) >= 2**63:
            return "malformed", ""
        token = int(token)
        if self.headers.get("Fencepost-Domain") != domain:
            return ("wrong_domain" if self.headers.get("Fencepost-Domain") else "malformed"), ""
        operation, request = self.headers["Idempotency-Key"], f"{self.command} {self.path} {body}"
        if not operation:
            return "malformed", ""
        is_known = token >> 43 <= KNOWN_EPOCH
        # What has happened has happened, however old the token is by now.
        row = db.execute("SELECT request, answer FROM operation WHERE domain = ? AND id = ?", [domain, operation])
        if row := row.fetchone():
            if row[0] != request:
                return "operation_conflict", ""
            if is_known:
                self.raise_fence(db, domain, token)
            return "replayed", row[1]
        if not is_known:
            return "unknown_epoch", ""
        row = db.execute("""SELECT max(ifnull((SELECT token FROM fence WHERE domain = ?), 0),
                                       ifnull((SELECT max(token) FROM floor), 0))""", [domain]).fetchone()
        if token < row[0]:
            return "stale_token", ""
        self.raise_fence(db, domain, token)
        if self.command == "PUT":
            db.execute("INSERT OR REPLACE INTO account VALUES (?, ?)", [domain, int(json.loads(body)["value"])])
        elif self.command == "DELETE":
            db.execute("DELETE FROM account WHERE domain = ?", [domain])
        text = json.dumps({"done": operation})
        db.execute("INSERT INTO operation VALUES (?, ?, ?, ?)", [domain, operation, request, text])
        return "applied", text

    def raise_fence(self, db, domain, token):
        db.execute("""INSERT INTO fence VALUES (?, ?)
                      ON CONFLICT DO UPDATE SET token = max(token, excluded.token)""", [domain, token])

    def domain(self):
        """The path decides which domain the resource belongs to, never the request's header."""
        return self.path.strip("/").removesuffix("/fence")

    def answer(self, status, text, verdict=None):
        self.send_response(status)
        if verdict:
            self.send_header("Fencepost-Verdict", verdict)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def bind(address, patience=10):
    until = time.monotonic() + patience
    while True:
        try:
            return ThreadingHTTPServer(address, Service)
        except OSError as error:
            # The process before this one may not be quite gone.
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    bank = connect()
    bank.executescript(SCHEMA)
    if len(sys.argv) > 3:
        bank.execute("INSERT INTO floor VALUES (?)", [int(sys.argv[3])])
    bank.close()
    server = bind(("127.0.0.1", int(sys.argv[2])))
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
