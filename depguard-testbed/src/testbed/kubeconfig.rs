//! Kubeconfigs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns a kubeconfig for one server and one token. JSON strings are YAML strings, so no value can break out.
pub(crate) fn print(server: &str, ca_pem: &str, user: &str) -> String {
    let server = serde_json::Value::from(server);
    let token = serde_json::Value::from(user);
    let ca = STANDARD.encode(ca_pem);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: testbed\n\
         clusters:\n\
         - name: testbed\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {ca}\n\
         users:\n\
         - name: user\n\
         \x20 user:\n\
         \x20   token: {token}\n\
         contexts:\n\
         - name: testbed\n\
         \x20 context:\n\
         \x20   cluster: testbed\n\
         \x20   user: user\n"
    )
}
