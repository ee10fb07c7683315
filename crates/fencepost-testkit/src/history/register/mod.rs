//! Is there an order of the calls that explains what everybody was answered?
//!
//! A register here is the value of one domain at one resource together with its fence: a call takes effect at one
//! moment between call and answer, a write only under a token that is not below the fence, an operation only once.
//! The search walks through the history and keeps every state that the answers so far allow (Wing and Gong's search,
//! by moments, with a memo of the states). A call without an answer may take effect at any later moment, or never; it
//! is dropped as soon as every state rules it out for good.
//!
//! Unanswered calls would double the states with each of them. So a state is kept only when no other one can do as
//! much (`Search::is_as_good`): one that spent fewer unanswered calls to come to the same value and fence. And an
//! operation that only a replay asks for need not be guessed at ahead of time: a state remembers which unanswered
//! writes may have been overwritten at once, unseen by anybody, and a replay may say afterwards that one of them was.

mod search;
mod step;

use std::collections::HashSet;

use search::Search;
use step::{ALL, Rules, number};

use super::{
    Violation,
    call::{Call, Outcome},
    story::tell,
};

/// More calls were under way, or more states to look at, than can be searched.
pub(super) struct TooMany;

/// # Errors
/// When more than [`PLACES`](search::PLACES) calls of the register were under way at a time, or an answer takes more than
/// [`COMPARED`](search::COMPARED) comparisons; nothing is said about the register then.
pub(super) fn check(calls: &[&Call]) -> Result<Option<Violation>, TooMany> {
    let mut compared = 0;
    let Some(broken_at) = explain(calls, ALL, &mut compared)? else { return Ok(None) };
    let end = calls[broken_at].answered;
    let until_then: Vec<&Call> = calls.iter().copied().filter(|call| Some(call.called) < end).collect();
    let mut explained = |calls: &[&Call], rules: Rules| matches!(explain(calls, rules, &mut compared), Ok(None));
    let (no_fence, not_once) = (Rules { fence: false, ..ALL }, Rules { once: false, ..ALL });
    let (invariant, what, without) = if explained(&until_then, no_fence) {
        ("I3", "no order explains the answers unless a stale call had its way", Some(no_fence))
    } else if explained(&until_then, not_once) {
        ("I6", "no order explains the answers unless operation records were ignored", Some(not_once))
    } else {
        ("register", "no order of the calls explains the answers: an update was lost or a value made up", None)
    };
    // What is left out must leave the reason as it is: the same answer is not explained, and would be without the rule. Nor
    // may it make something up: who wrote what is read stays.
    let (broken, known) = (calls[broken_at], written(&until_then));
    let mut compared = 0;
    let mut shows = |calls: &[&Call]| {
        let (here, read) = (written(calls), calls.iter().filter_map(|call| call.read_value()));
        let mut forgotten = read.filter(|value| known.contains(value) && !here.contains(value));
        if forgotten.next().is_some() {
            return Ok(false);
        }
        let is_broken = explain(calls, ALL, &mut compared)?.is_some_and(|at| std::ptr::eq(calls[at], broken));
        let is_why = is_broken
            && match without {
                Some(rules) => explain(calls, rules, &mut compared)?.is_none(),
                None => true,
            };
        if compared > COMPARED_FOR_A_STORY { Err(TooMany) } else { Ok(is_why) }
    };
    let story = shorten(latest(until_then, &mut shows), &mut shows);
    Ok(Some(Violation { invariant, what: what.to_owned(), story: tell(&story) }))
}

/// The values that these calls would write.
fn written<'a>(calls: &[&'a Call]) -> HashSet<&'a str> {
    calls.iter().filter_map(|call| call.action.value()).collect()
}

/// The position of the first call whose answer no order explains. Adds to `compared` how often it compared states.
fn explain(calls: &[&Call], rules: Rules, compared: &mut usize) -> Result<Option<usize>, TooMany> {
    let steps = number(calls, rules);
    let mut moments: Vec<(usize, bool, usize)> = Vec::new();
    for (at, (call, step)) in calls.iter().zip(&steps).enumerate() {
        if step.is_some() {
            moments.push((call.called, false, at));
            moments.extend(call.answered.filter(|_| call.outcome != Outcome::Unknown).map(|time| (time, true, at)));
        }
    }
    moments.sort_unstable();
    let mut search = Search::new(&steps, rules);
    for (_, is_answer, at) in moments {
        if !is_answer {
            search.begin(at)?;
        } else if !search.end(at, compared)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// How often states may be compared to cut a story down.
const COMPARED_FOR_A_STORY: usize = 20_000;

/// How often a story is tried without some of its calls: long histories are cut down far enough, not to the bone.
const TRIES: usize = 2_000;

/// The latest few calls that show it already: in a long history everything else is tried on these, and not on all of it.
fn latest<'a>(calls: Vec<&'a Call>, mut shows: impl FnMut(&[&'a Call]) -> Result<bool, TooMany>) -> Vec<&'a Call> {
    let mut many = 2;
    while many < calls.len() {
        let few = &calls[calls.len() - many..];
        match shows(few) {
            Ok(true) => return few.to_vec(),
            Ok(false) => many *= 2,
            Err(TooMany) => break,
        }
    }
    calls
}

/// Leaves out calls as long as what is left shows the same, and can be searched.
fn shorten<'a>(mut story: Vec<&'a Call>, mut shows: impl FnMut(&[&'a Call]) -> Result<bool, TooMany>) -> Vec<&'a Call> {
    let mut tries = 0;
    let mut chunk = story.len().div_ceil(2);
    while chunk > 0 {
        let mut start = 0;
        while start < story.len() && tries < TRIES {
            tries += 1;
            let mut shorter = story.clone();
            shorter.drain(start..(start + chunk).min(story.len()));
            match shows(&shorter) {
                Ok(true) => story = shorter,
                Ok(false) => start += chunk,
                Err(TooMany) => return story,
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    story
}
