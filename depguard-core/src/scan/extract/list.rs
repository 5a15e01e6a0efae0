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
    let mut walk = Visitor::new(tree, Json::new(bytes));
    let (mut page, mut items_seen) = (None, false);
    let Value::Map = walk.json().value()? else { return Err(walk.json().expected("a list of objects").into()) };
    let mut next = walk.json().first_key()?;
    while let Some(key) = next {
        // If the key stood twice, nobody could tell which value counts.
        match &*key.bytes()? {
            b"items" if items_seen => return Err(walk.json().expected("`items` once").into()),
            b"metadata" if page.is_some() => return Err(walk.json().expected("`metadata` once").into()),
            b"items" => {
                items_seen = true;
                items(&mut walk, hits.as_mut(), &mut each)?;
            }
            b"metadata" => page = Some(metadata(walk.json())?),
            _ => walk.json().skip()?,
        }
        next = walk.json().next_key()?;
    }
    walk.json().finish()?;
    if items_seen { Ok(page.unwrap_or_default()) } else { Err(PageError::NoItems) }
}

fn items<'de>(
    walk: &mut Visitor<'_, 'de>,
    mut hits: Option<&mut Hits<'_>>,
    each: &mut impl FnMut(&Item<'_, 'de>),
) -> Result<(), Malformed> {
    match walk.json().value()? {
        Value::List => {}
        // Go writes an empty slice as `null`.
        Value::Null => return Ok(()),
        _ => return Err(walk.json().expected("a list of objects")),
    }
    let mut more = walk.json().first_element();
    let mut likely = false;
    while more {
        match &mut hits {
            None => {
                walk.object()?;
                hand_out(walk, each)?;
            }
            // The next item is most likely like the previous one.
            Some(hits) => likely = search(walk, hits, likely, each)?,
        }
        more = walk.json().next_element()?;
    }
    Ok(())
}

/// Hands out the next item if a hit lies in it, and returns true in that case. If a hit is likely, the item is read
/// right away; otherwise the item is first skipped.
fn search<'de>(
    walk: &mut Visitor<'_, 'de>,
    hits: &mut Hits<'_>,
    likely: bool,
    each: &mut impl FnMut(&Item<'_, 'de>),
) -> Result<bool, Malformed> {
    let start = walk.json().clone();
    let Value::Map = start.clone().value()? else { return Err(walk.json().expected("an object")) };
    // An unreadable item is no error, unless a hit lies in it.
    let is_read = likely && walk.object().is_ok();
    if !is_read {
        *walk.json() = start.clone();
        walk.json().skip()?;
    }
    let hit = hits.is_within(start.end()..walk.json().end());
    if hit {
        if !is_read {
            *walk.json() = start;
            walk.object()?;
        }
        hand_out(walk, each)?;
    }
    Ok(hit)
}

/// Hands out the item that was read last.
fn hand_out<'de>(walk: &mut Visitor<'_, 'de>, each: &mut impl FnMut(&Item<'_, 'de>)) -> Result<(), Malformed> {
    let item = Item { found: walk.found() };
    if item.name().is_empty() {
        return Err(walk.json().expected("a metadata.name in the object before"));
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
