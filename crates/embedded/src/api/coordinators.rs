//! `FindCoordinator`.

use twinlog_protocol::messages::find_coordinator_response::Coordinator;
use twinlog_protocol::messages::{
    BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, StrBytes, string,
};

use crate::code::{COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, NONE, text};
use crate::server::Call;
use crate::state::State;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// Share groups have no coordinator here, so that no key of theirs is a valid one.
const SHARE: i8 = 2;

/// A dead coordinator goes on being named until its slots have moved.
pub(crate) fn find_coordinator(
    call: &Call,
    request: &FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    call.cluster.with(|state| {
        if call.version >= 4 {
            let coordinators = request.coordinator_keys.iter().map(|key| {
                let out = Coordinator::default().with_key(key.clone());
                match find(call, state, request.key_type, key) {
                    Ok((id, host, port)) => out
                        .with_error_message(Some(StrBytes::default()))
                        .with_node_id(BrokerId(id))
                        .with_host(string(&host))
                        .with_port(i32::from(port)),
                    Err(code) => out
                        .with_error_code(code)
                        .with_error_message(if request.key_type == SHARE {
                            Some(StrBytes::default())
                        } else {
                            text(code).map(StrBytes::from_static_str)
                        })
                        .with_node_id(BrokerId(-1))
                        .with_port(-1),
                }
            });
            return FindCoordinatorResponse::default()
                .with_error_message(None)
                .with_coordinators(coordinators.collect());
        }
        let found = find(call, state, request.key_type, &request.key);
        let code = found.as_ref().err().copied().unwrap_or(NONE);
        // The name of the code that is none is what these versions say of success.
        let message = if code == NONE { Some("NONE") } else { text(code) };
        let message = message.filter(|_| call.version >= 1).map(StrBytes::from_static_str);
        let out =
            FindCoordinatorResponse::default().with_error_code(code).with_error_message(message);
        match found {
            Ok((id, host, port)) => {
                out.with_node_id(BrokerId(id)).with_host(string(&host)).with_port(i32::from(port))
            }
            Err(_) => out.with_node_id(BrokerId(-1)).with_port(-1),
        }
    })
}

fn find(call: &Call, state: &State, kind: i8, key: &str) -> Result<(i32, String, u16), i16> {
    if let Some(code) = call.refused("", -1) {
        return Err(code);
    }
    let broker = match kind {
        GROUP => state.group_coordinator(key).broker,
        TRANSACTION => state.transaction_coordinator(key).broker,
        _ => return Err(INVALID_REQUEST),
    };
    let known = state
        .brokers
        .get(&broker)
        .filter(|known| !known.fenced)
        .ok_or(COORDINATOR_NOT_AVAILABLE)?;
    Ok((broker, known.host.clone(), known.port))
}
