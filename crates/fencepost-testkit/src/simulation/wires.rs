//! Connections between workers and the coordinator: bytes in order, late, or not at all.

use std::{collections::BTreeMap, io, sync::Arc};

use tokio::sync::oneshot;

use super::{
    deeds::Deed,
    happening::{Address, Happening, Who},
    network::Link,
    pipe::{Arrived, End, Pipe, Side},
    settings::Fault,
    world::World,
};

#[derive(Default)]
pub(super) struct Wires {
    next: u64,
    open: BTreeMap<u64, Wire>,
}

struct Wire {
    /// Whose it is; the copy of a request comes on a wire that is nobody's.
    client: Option<Address>,
    link: Link,
    /// Which start of the coordinator it leads to.
    start: u64,
    arrived: [Arc<Arrived>; 2],
    /// Nothing arrives at a side before what was sent to it earlier.
    latest_us: [u64; 2],
    closed: [bool; 2],
}

impl World {
    /// A worker wants a connection.
    pub(super) fn connect(&mut self, worker: usize, made: oneshot::Sender<io::Result<Pipe>>) {
        let from = self.address(worker);
        let at_us = self.network.carried(self.now_us(), Link::Coordinator(worker), &mut self.random, &self.settings);
        self.at(at_us, Happening::Connect { from, made });
    }

    /// The wish for a connection has come to the coordinator's machine.
    pub(super) fn accept(&mut self, from: Address, made: oneshot::Sender<io::Result<Pipe>>) {
        let link = Link::Coordinator(from.worker);
        let at_us = self.network.carried(self.now_us(), link, &mut self.random, &self.settings);
        let result = match self.server.is_some() && self.lives(from) {
            true => {
                let outbox = self.workers[from.worker].outbox.clone();
                let (connection, arrived) = self.lay(Some(from), link);
                Ok(Pipe::new(connection, Side::Client, arrived, outbox))
            }
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        self.at(at_us, Happening::Connected { to: from, made, result });
        self.run(Who::Coordinator);
    }

    /// A new wire to the server, and what arrives at its other side.
    fn lay(&mut self, client: Option<Address>, link: Link) -> (u64, Arc<Arrived>) {
        self.wires.next += 1;
        let connection = self.wires.next;
        let arrived = [Arc::<Arrived>::default(), Arc::default()];
        let start = self.machine().start;
        if let Some(server) = &self.server {
            server.accept(Pipe::new(connection, Side::Server, arrived[1].clone(), server.outbox.clone()));
        }
        let there = arrived[0].clone();
        self.wires
            .open
            .insert(connection, Wire { client, link, start, arrived, latest_us: [0; 2], closed: [false; 2] });
        (connection, there)
    }

    /// Bytes have been written.
    pub(super) fn carry(&mut self, connection: u64, from: Side, mut bytes: Vec<u8>) {
        let Some(wire) = self.wires.open.get_mut(&connection) else { return };
        if from == Side::Server {
            undate(&mut bytes);
        }
        self.digest.add(&[connection, from as u64]);
        if let Some(line) = bytes.split(|byte| *byte == b'\r').next().filter(|_| bytes.len() > 5) {
            let whose = wire.client.map_or("a copy", |client| &self.workers[client.worker].name);
            let arrow = if from == Side::Client { "->" } else { "<-" };
            self.common.note(format_args!("{whose} {arrow} {}", String::from_utf8_lossy(line)));
        }
        if self.settings.has(Fault::Drop) && self.random.chance(2) {
            self.common.note(format!("connection {connection} breaks, with these bytes on it"));
            self.digest.add_bytes(&bytes);
            self.common.count(Deed::ConnectionBroken);
            return self.break_wire(connection);
        }
        let at_us = self.network.carried(self.common.now_us(), wire.link, &mut self.random, &self.settings);
        let to = from.other();
        let at_us = at_us.max(wire.latest_us[to as usize]);
        wire.latest_us[to as usize] = at_us;
        let link = wire.link;
        if from == Side::Client && self.settings.has(Fault::Repeat) && self.random.chance(4) {
            let late_us = self.random.between(200, 3 * self.settings.ttl_ms * 1_000);
            self.after(late_us, Happening::Copy { link, bytes: bytes.clone() });
        }
        self.at(at_us, Happening::Bytes { connection, to, bytes });
    }

    /// The copy of a request has come, on a connection of its own. Nobody hears the answer.
    pub(super) fn copy(&mut self, link: Link, bytes: Vec<u8>) {
        if self.server.is_some() {
            let (connection, _) = self.lay(None, link);
            self.common.note("a copy of a request arrives");
            self.common.count(Deed::RepeatedAtCoordinator);
            self.after(0, Happening::Bytes { connection, to: Side::Server, bytes });
            let until_us = 3 * self.settings.ttl_ms * 1_000;
            self.after(until_us, Happening::End { connection, to: Side::Server, end: End::Closed });
        }
    }

    /// Both sides learn that a connection is broken.
    fn break_wire(&mut self, connection: u64) {
        for to in [Side::Client, Side::Server] {
            let delay_us = self.random.between(200, 20_000);
            self.after(delay_us, Happening::End { connection, to, end: End::Reset });
        }
    }

    /// A side has closed, or its process is gone.
    pub(super) fn close(&mut self, connection: u64, from: Side) {
        let Some(wire) = self.wires.open.get_mut(&connection) else { return };
        if std::mem::replace(&mut wire.closed[from as usize], true) {
            return;
        }
        let to = from.other();
        let at_us = self.network.carried(self.common.now_us(), wire.link, &mut self.random, &self.settings);
        let at_us = at_us.max(wire.latest_us[to as usize]);
        wire.latest_us[to as usize] = at_us;
        self.at(at_us, Happening::End { connection, to, end: End::Closed });
    }

    /// Bytes, or the end of a connection, have arrived.
    pub(super) fn arrive(&mut self, connection: u64, to: Side, what: What) {
        let Some(wire) = self.wires.open.get(&connection) else { return };
        let (client, start, arrived) = (wire.client, wire.start, wire.arrived[to as usize].clone());
        let ended = matches!(what, What::End(_));
        let is_there = match to {
            Side::Server => self.server.is_some() && start == self.machine().start,
            Side::Client => client.is_some_and(|client| self.lives(client)),
        };
        if !is_there {
            // A machine answers bytes for a process that is gone by breaking the connection.
            let wire = self.wires.open.remove(&connection);
            if let Some(wire) = wire.filter(|_| !ended) {
                wire.arrived[to.other() as usize].end(End::Reset);
                self.run_side(to.other(), wire.client);
            }
            return;
        }
        match what {
            What::Bytes(bytes) => arrived.bytes(&bytes),
            What::End(end) => {
                arrived.end(end);
                let Some(wire) = self.wires.open.get_mut(&connection) else { return };
                wire.closed[to.other() as usize] = true;
                if wire.closed == [true; 2] || end == End::Reset && client.is_none() {
                    self.wires.open.remove(&connection);
                }
            }
        }
        self.run_side(to, client);
    }

    fn run_side(&mut self, side: Side, client: Option<Address>) {
        match (side, client) {
            (Side::Server, _) => self.run(Who::Coordinator),
            (Side::Client, Some(client)) if self.lives(client) => self.run(Who::Worker(client)),
            (Side::Client, _) => {}
        }
    }
}

/// What a server dates its answers with: this machine's clock, of which the simulation knows nothing.
const DATE: &[u8] = b"\r\ndate: ";
const LONG_AGO: &[u8] = b"Thu, 01 Jan 1970 00:00:00 GMT";

/// Everything that passes follows from the seed.
fn undate(bytes: &mut [u8]) {
    if let Some(at) = bytes.windows(DATE.len()).position(|window| window == DATE) {
        let (start, end) = (at + DATE.len(), at + DATE.len() + LONG_AGO.len());
        bytes[start..end].copy_from_slice(LONG_AGO);
    }
}

pub(super) enum What {
    Bytes(Vec<u8>),
    End(End),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: the server's dates are let in.
    #[test]
    fn no_answer_has_the_date_of_this_machine() {
        let mut answer = b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 02:00:00 GMT\r\nx: y\r\n\r\n{}".to_vec();
        undate(&mut answer);
        assert_eq!(answer, b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\nx: y\r\n\r\n{}");
    }
}
