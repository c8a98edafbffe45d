//! Every method's future can be moved to another thread: callers spawn them.

use std::sync::Arc;
use std::time::Duration;

use twinlog_client::{
    ClientError, Cluster, ClusterOptions, FetchOptions, Isolation, NewTopic, OffsetSpec, TcpDial,
    Topics,
};
use twinlog_types::{GroupId, TopicName, TopicPartition};

fn spawnable<T: Send + 'static>(_: T) {}

#[test]
fn every_future_can_be_spawned() {
    let cluster = Cluster::new(
        ClusterOptions { bootstrap: vec!["127.0.0.1:1".into()], ..ClusterOptions::default() },
        Arc::new(TcpDial),
    );
    let all = (cluster, TopicPartition::new("t", 0), TopicName::from("t"), GroupId::from("g"));
    macro_rules! check {
        (|$c:ident, $tp:ident, $name:ident, $group:ident| $body:expr) => {{
            #[allow(unused_variables)]
            let ($c, $tp, $name, $group) = all.clone();
            spawnable(async move { drop($body.await) });
        }};
    }
    check!(|c, tp, name, group| c.cluster_id());
    check!(|c, tp, name, group| c.brokers());
    check!(|c, tp, name, group| c.topics(Topics::All));
    check!(|c, tp, name, group| c.topics(Topics::Named(std::slice::from_ref(&name))));
    check!(|c, tp, name, group| async {
        c.list_offsets(&[(tp.clone(), OffsetSpec::Latest)], Isolation::ReadUncommitted).await
    });
    check!(|c, tp, name, group| async {
        let mut session = c.fetch_session(1, FetchOptions::default());
        session.fetch(&[]).await
    });
    check!(|c, tp, name, group| c.produce_lane(1));
    check!(|c, tp, name, group| c.produce_plain(&tp, &[]));
    check!(|c, tp, name, group| async {
        let view = c.leader_view(&tp).await?;
        view.end_of_epoch(1).await?;
        view.log_end().await?;
        view.producers().await?;
        view.fetch(1, 1, Duration::ZERO, Isolation::ReadCommitted).await?;
        Ok::<_, ClientError>(())
    });
    check!(|c, tp, name, group| c.init_producer_id());
    check!(|c, tp, name, group| async {
        let mut owner = c.transactional("id", Duration::ZERO).await?;
        owner.reopen().await?;
        owner.write(vec![(tp.clone(), Vec::new())]).await?;
        Ok::<_, ClientError>(())
    });
    check!(|c, tp, name, group| c.read_partition(&tp, 0, Isolation::ReadCommitted));
    check!(|c, tp, name, group| c.list_groups());
    check!(|c, tp, name, group| c.fetch_offsets(std::slice::from_ref(&group)));
    check!(|c, tp, name, group| c.commit_offsets(&group, &[]));
    check!(|c, tp, name, group| c.create_topics(&[] as &[NewTopic]));
    check!(|c, tp, name, group| c.create_partitions(&name, 1));
    check!(|c, tp, name, group| c.describe_topic_configs(std::slice::from_ref(&name)));
    check!(|c, tp, name, group| c.alter_topic_configs(&name, &[]));
}
