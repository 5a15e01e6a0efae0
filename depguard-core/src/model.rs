pub(crate) mod api;
pub(crate) mod control_plane;
pub(crate) mod field_path;
pub(crate) mod go_duration;
pub(crate) mod label_selector;
pub(crate) mod message_template;
pub(crate) mod name_pattern;
pub(crate) mod names;
pub(crate) mod ownership;
pub(crate) mod percent_encoding;
#[cfg(feature = "schemars")]
pub(crate) mod schema;

pub use field_path::{PathError, PathErrorKind, Segment};
pub use go_duration::parse_duration;
pub use label_selector::{Selector, SelectorError};
pub use message_template::{Message, MessageError};
pub use name_pattern::{Pattern, PatternError};
pub use names::{GroupResource, Kind, NameError, Namespace, ObjectName, Resource, Version};
pub use ownership::{Collected, Owner, OwnerReference, lost_owner};
pub use percent_encoding::percent_encode;
