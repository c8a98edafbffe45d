use std::sync::Arc;
#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let file = std::env::args().nth(1).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let config = twinlog_mirror::Configuration::parse(&file, &bytes, &[]).unwrap();
    let clock = Arc::new(|| std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64);
    let options = twinlog_engine::EngineOptions::new(format!("x-{}", std::process::id()), 1, Arc::new(twinlog_client::TcpDial), clock);
    let engine = twinlog_engine::Engine::start(&config, &[], options);
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    tokio::select! { _ = term.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
    engine.shutdown().await;
}
