//! I4: key, value, headers and timestamp arrive as they were; null is not empty.

use twinlog_embedded::Record;

use crate::oracle::Written;

/// How a copy differs from what was written.
pub fn difference(record: &Record, written: &Written) -> Option<String> {
    let what = if record.key != written.key {
        format!("key {:?}, not {:?}", record.key, written.key)
    } else if record.value != written.value {
        format!("value {:?}, not {:?}", record.value, written.value)
    } else if record.headers != written.headers {
        format!("headers {:?}, not {:?}", record.headers, written.headers)
    } else if record.timestamp != written.timestamp {
        format!("timestamp {}, not {}", record.timestamp, written.timestamp)
    } else {
        return None;
    };
    Some(format!("record {} at {} has {what}", written.number, record.offset))
}
