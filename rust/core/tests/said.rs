//! A plain message is read as a reader of JSON reads it.

use proptest::prelude::*;
use siltstone_core::json::said;

proptest! {
    #[test]
    fn what_is_read_is_what_others_read(inside in r#"[a"\\\\/nrtbfuxdD8é0-9\n]{0,12}"#) {
        let json = format!(r#"{{"role":"user","content":"{inside}"}}"#);
        if let Some(read) = said(&json) {
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(&value["content"], &*read.text);
        }
    }
}
