//! A LIST page: its objects, and its metadata of the list.

use super::path_trie::PathTrie;
use super::prefilter::Hits;
use super::visitor::Visitor;
use super::{Item, Page, PageError};
use crate::scan::json::{Json, Malformed, Value};

/// Reads a whole page and hands its items to `each`. With `hits`, `each` gets only the items in which a hit lies.
pub(super) fn read<'de>(
    tree: &PathTrie,
    bytes: &'de [u8],
    mut hits: Option<Hits<'_>>,
    mut each: impl FnMut(&Item<'_, 'de>),
) -> Result<Page, PageError> {
    let mut visitor = Visitor::new(tree, Json::new(bytes));
    let (mut page, mut items_seen) = (None, false);
    let Value::Map = visitor.json().value()? else { return Err(visitor.json().expected("a list of objects").into()) };
    let mut next = visitor.json().first_key()?;
    while let Some(key) = next {
        // If the key stood twice, nobody could tell which value counts.
        match &*key.bytes()? {
            b"items" if items_seen => return Err(visitor.json().expected("`items` once").into()),
            b"metadata" if page.is_some() => return Err(visitor.json().expected("`metadata` once").into()),
            b"items" => {
                items_seen = true;
                items(&mut visitor, hits.as_mut(), &mut each)?;
            }
            b"metadata" => page = Some(metadata(visitor.json())?),
            _ => visitor.json().skip()?,
        }
        next = visitor.json().next_key()?;
    }
    visitor.json().finish()?;
    if items_seen { Ok(page.unwrap_or_default()) } else { Err(PageError::NoItems) }
}

/// Reads one object, which is in no list, and hands it to `each`.
pub(super) fn object<'de>(
    tree: &PathTrie,
    bytes: &'de [u8],
    mut each: impl FnMut(&Item<'_, 'de>),
) -> Result<(), Malformed> {
    let mut visitor = Visitor::new(tree, Json::new(bytes));
    visitor.object()?;
    visitor.json().finish()?;
    hand_out(&mut visitor, &mut each)
}

fn items<'de>(
    visitor: &mut Visitor<'_, 'de, 'de>,
    mut hits: Option<&mut Hits<'_>>,
    each: &mut impl FnMut(&Item<'_, 'de>),
) -> Result<(), Malformed> {
    match visitor.json().value()? {
        Value::List => {}
        // Go writes an empty slice as `null`.
        Value::Null => return Ok(()),
        _ => return Err(visitor.json().expected("a list of objects")),
    }
    let mut more = visitor.json().first_element();
    let mut likely = false;
    while more {
        match &mut hits {
            None => {
                visitor.object()?;
                hand_out(visitor, each)?;
            }
            // The next item is most likely like the previous one.
            Some(hits) => likely = search(visitor, hits, likely, each)?,
        }
        more = visitor.json().next_element()?;
    }
    Ok(())
}

/// Hands out the next item if a hit lies in it, and returns true in that case. If a hit is likely, the item is read
/// right away; otherwise the item is first skipped.
fn search<'de>(
    visitor: &mut Visitor<'_, 'de, 'de>,
    hits: &mut Hits<'_>,
    likely: bool,
    each: &mut impl FnMut(&Item<'_, 'de>),
) -> Result<bool, Malformed> {
    let start = visitor.json().clone();
    let Value::Map = start.clone().value()? else { return Err(visitor.json().expected("an object")) };
    // An unreadable item is no error, unless a hit lies in it.
    let is_read = likely && visitor.object().is_ok();
    if !is_read {
        *visitor.json() = start.clone();
        visitor.json().skip()?;
    }
    let hit = hits.is_within(start.end()..visitor.json().end());
    if hit {
        if !is_read {
            *visitor.json() = start;
            visitor.object()?;
        }
        hand_out(visitor, each)?;
    }
    Ok(hit)
}

/// Hands out the item that was read last.
fn hand_out<'de>(visitor: &mut Visitor<'_, 'de, 'de>, each: &mut impl FnMut(&Item<'_, 'de>)) -> Result<(), Malformed> {
    let item = Item { found: visitor.found() };
    if item.name().is_empty() {
        return Err(visitor.json().expected("a metadata.name in the object before"));
    }
    each(&item);
    Ok(())
}

/// Reads the metadata of a list.
pub(super) fn metadata(json: &mut Json<'_>) -> Result<Page, Malformed> {
    let Value::Map = json.value()? else { return Err(json.expected("the metadata of a list before")) };
    let (mut version, mut token) = (None, None);
    let mut next = json.first_key()?;
    while let Some(key) = next {
        match &*key.bytes()? {
            b"resourceVersion" => once(json, &mut version)?,
            b"continue" => once(json, &mut token)?,
            _ => json.skip()?,
        }
        next = json.next_key()?;
    }
    Ok(Page::new(version.flatten(), token.flatten()))
}

/// Reads a string or `null`; a second occurrence of the field is an error.
fn once(json: &mut Json<'_>, field: &mut Option<Option<String>>) -> Result<(), Malformed> {
    let text = match json.value()? {
        Value::String(text) if field.is_none() => Some(text.text()?.into_owned()),
        Value::Null if field.is_none() => None,
        _ => return Err(json.expected("a string, once, before")),
    };
    *field = Some(text);
    Ok(())
}
