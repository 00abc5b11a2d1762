//! `/liveness`, `/readiness` and `/metrics` over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Silence of the agent's loop after which it counts as stuck (upstream's `DataplaneWatchdogTimeout`).
const WATCHDOG: Duration = Duration::from_secs(90);

/// How the agent is.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct Health {
    /// When the agent's loop last came round.
    pub beat: Instant,
    /// Whether datastore and kernel are in sync; once true it stays so until the agent stops.
    pub ready: bool,
    /// What is missing, for people.
    pub detail: String,
}

/// Serves until the listener fails.
pub async fn serve(address: SocketAddr, health: watch::Receiver<Health>, metrics: Arc<Metrics>) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router(health, metrics)).await
}

fn router(health: watch::Receiver<Health>, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/liveness", get(liveness))
        .route("/readiness", get(readiness))
        .with_state(health)
        .route("/metrics", get(async move || metrics.text()))
}

async fn liveness(State(health): State<watch::Receiver<Health>>) -> (StatusCode, String) {
    let silence = health.borrow().beat.elapsed();
    if silence < WATCHDOG {
        (StatusCode::OK, "live\n".into())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("the agent's loop has been silent for {} s\n", silence.as_secs()))
    }
}

async fn readiness(State(health): State<watch::Receiver<Health>>) -> (StatusCode, String) {
    let health = health.borrow();
    if health.ready {
        (StatusCode::OK, "ready\n".into())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", health.detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn tells_live_from_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let start = Health { beat: Instant::now(), ready: false, detail: "waits for the datastore".into() };
        let (sender, receiver) = watch::channel(start);
        tokio::spawn(async move { axum::serve(listener, router(receiver, Arc::new(Metrics::default()))).await });
        assert!(ask(address, "/liveness").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/readiness").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("not ready: waits for the datastore\n"),
            "{answer}"
        );
        sender.send_modify(|health| health.ready = true);
        assert!(ask(address, "/readiness").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/metrics").await.contains("felix_active_local_endpoints 0"));
    }
}
