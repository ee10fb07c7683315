//! A token keeps its digits wherever it is shown, also where a JSON number would have lost the last of them.

use fencepost_core::{Epoch, Token};
use serde_json::{Value, json};

use crate::common::Server;

/// Mutant: `FENCEPOST_TOKEN` made by way of a double (run/environment.rs); at the greatest epoch it is another number than
/// that of the grant.
#[test]
fn a_token_keeps_its_digits_from_the_grant_to_the_fence() {
    // The tokens of these epochs lie just above 2^53, and below 2^63.
    for epoch in [1 << 10, Epoch::MAX.get()] {
        let server = Server::at_epoch(epoch);
        let shell = server.shell();
        let resource = shell.database("x.db", "CREATE TABLE t (d TEXT)");
        shell.run(&["guard", &resource, "t", "--domain", "d"]).exits(0);

        let acquired = shell.run(&["acquire", "d", "--json", "--ttl", "60s"]).exits(0).json();
        let digits = acquired["token"].as_str().unwrap().to_owned();
        let token: Token = digits.parse().unwrap();
        assert_eq!((token.epoch().get(), token.as_u64() > 1 << 53), (epoch, true));
        for arguments in [["ls", "--json"].as_slice(), &["show", "d", "--json"], &["history", "d", "--json"]] {
            let shown = shell.run(arguments).exits(0).json();
            assert_eq!(shown["items"][0]["token"], json!(digits), "{arguments:?}: {shown}");
        }
        let people = format!("{epoch}.{}", token.sequence().get());
        for arguments in [["ls"].as_slice(), &["show", "d"], &["history", "d"]] {
            let shown = shell.run(arguments).exits(0).stdout;
            assert!(shown.contains(&people), "{arguments:?}: {shown}");
        }

        let script = "echo \"$FENCEPOST_TOKEN $FENCEPOST_GRANT\"";
        let inside = shell.run(&["run", "e", "--advance", &resource, "--", "sh", "-c", script]).exits(0).stdout;
        let (variable, grant) = inside.split_once(' ').unwrap();
        let grant: Value = serde_json::from_str(grant).unwrap();
        assert_eq!(grant["token"], json!(variable));
        let token: Token = variable.parse().unwrap();
        assert_eq!(token.epoch().get(), epoch);
        let status = shell.run(&["status", &resource, "--fences", "--json"]).exits(0).json();
        assert_eq!(status["fence_items"], json!([{"domain": "e", "token": variable}]));
        let status = shell.run(&["status", &resource, "--fences"]).exits(0).stdout;
        assert!(status.contains(variable) && status.contains(&token.to_string()), "{status}");
    }
}
