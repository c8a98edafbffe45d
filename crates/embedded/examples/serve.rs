//! Serves a cluster on TCP ports for clients outside of this process:
//! `cargo run -p twinlog-embedded --example serve -- 3 19092` starts three brokers on 19092, 19093
//! and 19094 of 127.0.0.1, and a topic `orders`.

use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, NewRecord};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let brokers = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let port = arguments.next().map_or(Ok(19092), |text| text.parse())?;
    let mut options = EmbeddedOptions::new("hello").with_brokers(brokers);
    options.epoch_ms = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_millis()
        .try_into()?;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic("orders", 3, &[])?;
    cluster.append("orders", 0, &[NewRecord::new("key", "value")])?;
    cluster.listen_tcp("127.0.0.1", port).await?;
    println!("{}", cluster.bootstrap());
    tokio::signal::ctrl_c().await?;
    for violation in cluster.violations() {
        println!("violation: {violation}");
    }
    Ok(())
}
