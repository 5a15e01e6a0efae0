//! Content of a document, as the parser passes it on: the items of a list become records one by one.

use std::fmt;
use std::sync::Arc;

use indicatif::ProgressBar;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::cluster::documents::list::{ITEMS, ItemType};
use crate::cluster::documents::parts::MAX_DOCUMENTS;
use crate::cluster::documents::{Document, Origin, is_manifest};
use crate::cluster::object_record::{ObjectRecord, SharedNames};
use crate::io::exit::Failure;

/// Content of one document.
#[derive(Debug)]
pub(super) enum Content {
    Value(Value),
    /// Map with a sequence named `items`, which most likely is a list.
    Items {
        /// Fields besides the items.
        fields: Map<String, Value>,
        items: Vec<Item>,
    },
}

/// Element of `items`.
#[derive(Debug)]
pub(super) enum Item {
    Record(ObjectRecord),
    /// Element that is not an object with a type of its own, or that is itself a list.
    Value(Value),
}

impl Item {
    pub(super) fn to_value(&self) -> Result<Value, Failure> {
        match self {
            Self::Record(record) => record.text.to_value().map(Arc::unwrap_or_clone),
            Self::Value(value) => Ok(value.clone()),
        }
    }
}

/// Reader of one document.
pub(super) struct ContentSeed<'s> {
    origin: &'s Origin,
    names: &'s mut SharedNames,
    progress: &'s ProgressBar,
    is_full: bool,
}

impl<'s> ContentSeed<'s> {
    pub(super) fn new(origin: &'s Origin, names: &'s mut SharedNames, progress: &'s ProgressBar) -> Self {
        Self { origin, names, progress, is_full: false }
    }

    /// Returns true if the document has more items than a command reads; the parser then stopped with an error.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn read<'de, D: Deserializer<'de>>(&mut self, parser: D) -> Result<Content, D::Error> {
        self.level(Level::Document).deserialize(parser)
    }

    /// Reads JSON; `None` if the text is not JSON.
    pub(super) fn read_json(&mut self, text: &str) -> Option<Content> {
        let mut parser = serde_json::Deserializer::from_str(text);
        let content = self.read(&mut parser).ok()?;
        parser.end().ok()?;
        Some(content)
    }

    fn level(&mut self, level: Level) -> LevelSeed<'_, 's> {
        LevelSeed { seed: self, level }
    }

    fn item(&mut self, mut value: Value, item_type: Option<&ItemType>) -> Item {
        self.progress.inc(1);
        if let Some(item_type) = item_type {
            item_type.complete(&mut value);
        }
        let is_list = value.as_object().is_some_and(|fields| fields.contains_key(ITEMS));
        if is_list || !is_manifest(&value) {
            return Item::Value(value);
        }
        let document = Document { value: Arc::new(value), origin: self.origin.clone() };
        Item::Record(ObjectRecord::new(&document, self.names))
    }
}

/// Part of a document that the parser passes on in pieces.
enum Level {
    /// The document itself.
    Document,
    /// The value of its field `items`, with the type of a list whose fields say so before.
    Items(Option<ItemType>),
}

struct LevelSeed<'a, 's> {
    seed: &'a mut ContentSeed<'s>,
    level: Level,
}

impl<'de> DeserializeSeed<'de> for LevelSeed<'_, '_> {
    type Value = Content;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Content, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LevelSeed<'_, '_> {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        if let Level::Items(_) = self.level {
            return Value::deserialize(MapAccessDeserializer::new(map)).map(Content::Value);
        }
        let (mut fields, mut items) = (Map::new(), None);
        while let Some(field) = map.next_key::<String>()? {
            if field != ITEMS {
                fields.insert(field, map.next_value()?);
                continue;
            }
            // An API server names the type and the metadata first, so that the items can be completed at once.
            let item_type = fields.get("metadata").and_then(|_| ItemType::from_list(&fields));
            items = Some(map.next_value_seed(self.seed.level(Level::Items(item_type)))?);
        }
        Ok(match items {
            Some(Content::Value(value)) => {
                fields.insert(ITEMS.to_owned(), value);
                Content::Value(Value::Object(fields))
            }
            Some(Content::Items { items, .. }) => Content::Items { fields, items },
            None => Content::Value(Value::Object(fields)),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Content, A::Error> {
        let Level::Items(item_type) = self.level else {
            return Value::deserialize(SeqAccessDeserializer::new(sequence)).map(Content::Value);
        };
        let mut items = Vec::new();
        while let Some(value) = sequence.next_element()? {
            if items.len() >= MAX_DOCUMENTS {
                self.seed.is_full = true;
                return Err(A::Error::custom("too many items"));
            }
            items.push(self.seed.item(value, item_type.as_ref()));
        }
        Ok(Content::Items { fields: Map::new(), items })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Value(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Value(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Value(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Value(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Value(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Value(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Content, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, parser: D) -> Result<Content, D::Error> {
        self.deserialize(parser)
    }
}
