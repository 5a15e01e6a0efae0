//! Review with both states of its object.

use serde::Deserialize;
use serde::de::Error;

use crate::protocol::admission_review::{Review, ReviewError};
use crate::protocol::reviewed_object::ReviewedObject;
use crate::scan::json::{Json, Malformed, Value};
use crate::scan::text::Text;

/// An AdmissionReview of any operation, with the bytes of the object's states.
#[derive(Debug, Clone)]
pub struct ObjectReview<'a> {
    review: Review<'a>,
    object: Option<&'a str>,
    old_object: Option<&'a str>,
}

impl<'a> ObjectReview<'a> {
    /// Reads a review. Of the objects in it, only the metadata is parsed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let review = Review::parse(bytes)?;
        let (object, old_object) = objects(bytes).map_err(|error| serde_json::Error::custom(error.to_string()))?;
        Ok(Self { review, object, old_object })
    }

    /// Returns the review without the states of the object.
    pub fn review(&self) -> &Review<'a> {
        &self.review
    }

    /// Returns the new state of the object.
    pub(crate) fn object(&self) -> Option<&'a str> {
        self.object
    }

    /// Returns the old state of the object.
    pub(crate) fn old_object(&self) -> Option<&'a str> {
        self.old_object
    }

    /// Returns true if a server-side apply makes the new state. The review of a creation says so only in the object's
    /// `managedFields`.
    #[cfg_attr(not(feature = "interlock"), allow(dead_code, reason = "only the interlock uses it"))]
    pub(crate) fn is_apply(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            #[serde(borrow)]
            managed_fields: Option<Vec<ManagedFields<'a>>>,
        }
        #[derive(Deserialize)]
        struct ManagedFields<'a> {
            #[serde(borrow)]
            operation: Option<Text<'a>>,
        }
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        let object = self.object.and_then(|object| serde_json::from_str::<Object<'_>>(object).ok());
        let managers = object.and_then(|object| object.metadata.managed_fields).unwrap_or_default();
        managers.iter().any(|manager| manager.operation.as_ref().is_some_and(|operation| operation.as_str() == "Apply"))
    }

    /// Returns the metadata of the new state; `None` if there is none, or if it can't be read.
    pub(crate) fn new_metadata(&self) -> Option<ReviewedObject<'a>> {
        serde_json::from_str(self.object?).ok()
    }
}

type Objects<'a> = (Option<&'a str>, Option<&'a str>);

/// Returns both states of the object; each may stand in the review once.
fn objects(bytes: &[u8]) -> Result<Objects<'_>, Malformed> {
    let mut json = Json::new(bytes);
    let mut found = (None, None);
    let Value::Map = json.value()? else { return Err(json.expected("an AdmissionReview")) };
    let mut next = json.first_key()?;
    while let Some(key) = next {
        if &*key.bytes()? == b"request" {
            found = of_request(&mut json)?;
        } else {
            json.skip()?;
        }
        next = json.next_key()?;
    }
    Ok(found)
}

fn of_request<'a>(json: &mut Json<'a>) -> Result<Objects<'a>, Malformed> {
    let (mut object, mut old_object) = (None, None);
    let Value::Map = json.value()? else { return Err(json.expected("a request")) };
    let mut next = json.first_key()?;
    while let Some(key) = next {
        match &*key.bytes()? {
            b"object" => once(json, &mut object)?,
            b"oldObject" => once(json, &mut old_object)?,
            _ => json.skip()?,
        }
        next = json.next_key()?;
    }
    Ok((object.flatten(), old_object.flatten()))
}

/// Reads a value that must not stand there twice: otherwise nobody could tell which one counts.
fn once<'a>(json: &mut Json<'a>, field: &mut Option<Option<&'a str>>) -> Result<(), Malformed> {
    let start = json.offset();
    json.skip()?;
    if field.is_some() {
        return Err(json.expected("the object once, before"));
    }
    *field = Some(Some(json.text_since(start)?).filter(|text| *text != "null"));
    Ok(())
}
