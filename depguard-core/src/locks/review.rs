//! A review with both states of its object.

use serde::de::Error;

use crate::json::{Json, Malformed, Value};
use crate::review::{Review, ReviewError, ReviewedObject};

/// An AdmissionReview of any operation, with the bytes of the object's states.
#[derive(Debug, Clone)]
pub struct LockReview<'a> {
    review: Review<'a>,
    object: Option<&'a str>,
    old_object: Option<&'a str>,
}

impl<'a> LockReview<'a> {
    /// Reads a review. The objects in it are not parsed, but for their metadata.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let review = Review::parse(bytes)?;
        let (object, old_object) = objects(bytes).map_err(|error| serde_json::Error::custom(error.to_string()))?;
        Ok(Self { review, object, old_object })
    }

    /// What it says besides the objects.
    pub fn review(&self) -> &Review<'a> {
        &self.review
    }

    /// The object as it is to be.
    pub(super) fn object(&self) -> Option<&'a str> {
        self.object
    }

    /// The object as it is.
    pub(super) fn old_object(&self) -> Option<&'a str> {
        self.old_object
    }

    /// The metadata of the object as it is to be; `None`: there is none, or it can't be read.
    pub(super) fn new_metadata(&self) -> Option<ReviewedObject<'a>> {
        serde_json::from_str(self.object?).ok()
    }
}

type Objects<'a> = (Option<&'a str>, Option<&'a str>);

/// Both states of the object, each once.
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

/// Reads a value that must not stand there twice: nobody could tell which counts.
fn once<'a>(json: &mut Json<'a>, field: &mut Option<Option<&'a str>>) -> Result<(), Malformed> {
    let start = json.offset();
    json.skip()?;
    if field.is_some() {
        return Err(json.expected("the object once, before"));
    }
    *field = Some(Some(json.text_since(start)?).filter(|text| *text != "null"));
    Ok(())
}
