//! One compiled expression: parsed as RE2 parses it, and searched with in a fixed amount of memory.

use regex_automata::meta::{BuildError, Cache, Config, Regex};
use regex_automata::util::captures::Captures;
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    AssertionKind, Ast, ClassAscii, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem,
    Flag, Flags, FlagsItem, FlagsItemKind, Group, GroupKind, Span,
};
use regex_syntax::hir::Hir;
use regex_syntax::hir::translate::TranslatorBuilder;

use super::Pattern;

/// A compiled expression.
///
/// Only the automaton itself is kept: no cache of a lazy DFA, and no precomputed table. A search reads one short
/// string at a time, and rules may hold thousands of expressions.
#[derive(Debug)]
pub(super) struct Expression(Regex);

/// The reason why an expression can't be used: one line.
#[derive(Debug)]
pub(super) struct ExpressionError(pub(super) String);

impl Expression {
    pub(super) fn compile(pattern: &str) -> Result<Self, ExpressionError> {
        let mut ast =
            (ParserBuilder::new().build().parse(pattern)).map_err(|error| ExpressionError(error.kind().to_string()))?;
        ascii(&mut ast);
        let hir = (TranslatorBuilder::new().build().translate(pattern, &ast))
            .map_err(|error| ExpressionError(error.kind().to_string()))?;
        bounded_groups(&hir)?;
        let config = Config::new().nfa_size_limit(Some(Pattern::MAX_SIZE)).hybrid(false).dfa(false).onepass(false);
        let regex = Regex::builder().configure(config).build_from_hir(&hir).map_err(|error| unusable(&error))?;
        // Beside the automaton, the regex keeps the literals that a search looks for first.
        if regex.memory_usage() > Pattern::MAX_SIZE {
            return Err(too_large());
        }
        Ok(Self(regex))
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.memory_usage()
    }

    /// Returns the number of groups, without the whole match.
    pub(super) fn groups(&self) -> usize {
        self.0.group_info().group_len(regex_automata::PatternID::ZERO).saturating_sub(1)
    }

    /// Returns the index of the group of that name.
    pub(super) fn group(&self, name: &str) -> Option<usize> {
        self.0.group_info().to_index(regex_automata::PatternID::ZERO, name)
    }

    /// Returns the working memory of a search.
    pub(super) fn room(&self) -> (Cache, Captures) {
        (self.0.create_cache(), self.0.create_captures())
    }

    /// Searches `text` and writes the first match to `captures`; returns true if there is a match.
    pub(super) fn search(&self, text: &str, cache: &mut Cache, captures: &mut Captures) -> bool {
        self.0.search_captures_with(cache, &text.into(), captures);
        captures.is_match()
    }
}

fn bounded_groups(hir: &Hir) -> Result<(), ExpressionError> {
    let (groups, most) = (hir.properties().explicit_captures_len(), Pattern::MAX_GROUPS);
    if groups > most {
        let why = format!(
            "it has {groups} groups, and at most {most} are allowed: write `(?:` for groups that you don't use"
        );
        return Err(ExpressionError(why));
    }
    Ok(())
}

fn unusable(error: &BuildError) -> ExpressionError {
    if error.size_limit().is_some() { too_large() } else { ExpressionError(error.to_string()) }
}

fn too_large() -> ExpressionError {
    let most = Pattern::MAX_SIZE >> 10;
    ExpressionError(format!("it takes more than {most} KiB when compiled: use fewer repetitions or smaller classes"))
}

// === Perl classes mean ASCII, as in RE2 ===

/// Makes `\w`, `\d`, `\s`, `\b` and their opposites mean ASCII. The parser bounds the depth of the recursion.
fn ascii(ast: &mut Ast) {
    match ast {
        Ast::ClassPerl(class) => {
            let bracketed = Ast::class_bracketed(bracketed(class));
            *ast = with_flag_off(class.span, Flag::CaseInsensitive, bracketed);
        }
        Ast::Assertion(assertion) if is_about_words(&assertion.kind) => {
            *ast = with_flag_off(assertion.span, Flag::Unicode, Ast::assertion((**assertion).clone()));
        }
        Ast::ClassBracketed(class) => ascii_set(&mut class.kind),
        Ast::Repetition(repetition) => ascii(&mut repetition.ast),
        Ast::Group(group) => ascii(&mut group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter_mut().for_each(ascii),
        Ast::Concat(concat) => concat.asts.iter_mut().for_each(ascii),
        Ast::Assertion(_) | Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) => {}
    }
}

fn ascii_set(set: &mut ClassSet) {
    match set {
        ClassSet::Item(item) => ascii_item(item),
        ClassSet::BinaryOp(op) => {
            ascii_set(&mut op.lhs);
            ascii_set(&mut op.rhs);
        }
    }
}

fn ascii_item(item: &mut ClassSetItem) {
    match item {
        ClassSetItem::Perl(class) => *item = ClassSetItem::Bracketed(Box::new(bracketed(class))),
        ClassSetItem::Bracketed(class) => ascii_set(&mut class.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().for_each(ascii_item),
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Ascii(_)
        | ClassSetItem::Unicode(_) => {}
    }
}

/// Returns `[[:word:]]` for `\w`, and `[^[:word:]]` for `\W`; likewise for digits and spaces.
fn bracketed(class: &ClassPerl) -> ClassBracketed {
    let kind = match class.kind {
        ClassPerlKind::Digit => ClassAsciiKind::Digit,
        ClassPerlKind::Space => ClassAsciiKind::Space,
        ClassPerlKind::Word => ClassAsciiKind::Word,
    };
    let item = ClassSetItem::Ascii(ClassAscii { span: class.span, kind, negated: false });
    ClassBracketed { span: class.span, negated: class.negated, kind: ClassSet::Item(item) }
}

/// Wraps an expression as `(?-i:…)`, with the given flag.
fn with_flag_off(span: Span, flag: Flag, ast: Ast) -> Ast {
    let items = [FlagsItemKind::Negation, FlagsItemKind::Flag(flag)].map(|kind| FlagsItem { span, kind });
    let kind = GroupKind::NonCapturing(Flags { span, items: items.into() });
    Ast::group(Group { span, kind, ast: Box::new(ast) })
}

fn is_about_words(kind: &AssertionKind) -> bool {
    match kind {
        AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary
        | AssertionKind::WordBoundaryStart
        | AssertionKind::WordBoundaryEnd
        | AssertionKind::WordBoundaryStartAngle
        | AssertionKind::WordBoundaryEndAngle
        | AssertionKind::WordBoundaryStartHalf
        | AssertionKind::WordBoundaryEndHalf => true,
        AssertionKind::StartLine | AssertionKind::EndLine | AssertionKind::StartText | AssertionKind::EndText => false,
    }
}
