//! JSON pointers (RFC 6901) to members of the params: what is left out of the key, or hidden in the record (design §3, §10).

use std::borrow::Cow;
use std::str::FromStr;

use super::canonical::Json;

/// A pointer to a member of an object, such as `/request_id` or `/items/0/nonce`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

/// Why a pointer can't be followed to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAMember(String);

impl std::fmt::Display for NotAMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} points to an element of an array, and only a member of an object can be meant", self.0)
    }
}

impl std::error::Error for NotAMember {}

impl std::fmt::Display for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Pointer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix('/') else {
            return Err("a JSON pointer to a member begins with /, as in /request_id".to_owned());
        };
        let tokens: Result<Vec<String>, String> = path.split('/').map(unescape).collect();
        Ok(Pointer { text: text.to_owned(), tokens: tokens? })
    }
}

/// `~1` is a slash and `~0` a tilde; nothing else may follow a tilde.
fn unescape(token: &str) -> Result<String, String> {
    let mut rest = token.chars();
    let mut unescaped = String::with_capacity(token.len());
    while let Some(char) = rest.next() {
        match (char, if char == '~' { rest.next() } else { None }) {
            ('~', Some('0')) => unescaped.push('~'),
            ('~', Some('1')) => unescaped.push('/'),
            ('~', _) => return Err("in a JSON pointer ~ is written ~0 and / within a name ~1".to_owned()),
            (char, _) => unescaped.push(char),
        }
    }
    Ok(unescaped)
}

impl Pointer {
    /// Removes the member that the pointer names. One that isn't there is no error: it is volatile.
    pub fn remove(&self, json: &mut Json<'_>) -> Result<(), NotAMember> {
        if let Some((members, index)) = self.find(json)? {
            members.remove(index);
        }
        Ok(())
    }

    /// Puts a text in the place of the value that the pointer names, where it is there.
    pub fn replace(&self, json: &mut Json<'_>, text: &'static str) -> Result<(), NotAMember> {
        if let Some((members, index)) = self.find(json)? {
            members[index].1 = Json::String(Cow::Borrowed(text));
        }
        Ok(())
    }

    /// Tells whether the pointer names anything that is there: a member, an element, null too.
    pub fn is_in(&self, mut json: &Json<'_>) -> bool {
        for token in &self.tokens {
            let next = match json {
                Json::Object(members) => members.iter().find(|(name, _)| name == token).map(|(_, value)| value),
                Json::Array(elements) => index(token).and_then(|index| elements.get(index)),
                _ => None,
            };
            match next {
                Some(next) => json = next,
                None => return false,
            }
        }
        true
    }

    fn find<'a, 'b>(&self, mut json: &'a mut Json<'b>) -> Result<Option<(&'a mut Members<'b>, usize)>, NotAMember> {
        let Some((last, path)) = self.tokens.split_last() else { return Ok(None) };
        for token in path {
            let next = match json {
                Json::Object(members) => members.iter_mut().find(|(name, _)| name == token).map(|(_, value)| value),
                Json::Array(elements) => index(token).and_then(|index| elements.get_mut(index)),
                _ => None,
            };
            match next {
                Some(next) => json = next,
                None => return Ok(None),
            }
        }
        match json {
            Json::Object(members) => {
                let index = members.iter().position(|(name, _)| name == last);
                Ok(index.map(|index| (members, index)))
            }
            // Taking an element out would move those behind it: two different calls could become one.
            Json::Array(_) => Err(NotAMember(self.text.clone())),
            _ => Ok(None),
        }
    }
}

type Members<'b> = Vec<(Cow<'b, str>, Json<'b>)>;

/// An array index as RFC 6901 has it: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(text: &str) -> Pointer {
        text.parse().expect(text)
    }

    fn without(json: &str, at: &str) -> String {
        let mut json = Json::parse(json.as_bytes()).expect("JSON");
        pointer(at).remove(&mut json).expect("a member");
        let mut text = String::new();
        json.write_compact(&mut text);
        text
    }

    #[test]
    fn removes_what_it_names_and_nothing_else() {
        for (json, at, left) in [
            (r#"{"a":1,"id":2}"#, "/id", r#"{"a":1}"#),
            (r#"{"a":{"id":2,"b":[{"id":3}]}}"#, "/a/b/0/id", r#"{"a":{"id":2,"b":[{}]}}"#),
            (r#"{"a/b":{"~":1}}"#, "/a~1b/~0", r#"{"a/b":{}}"#),
            (r#"{"":{"":1}}"#, "//", r#"{"":{}}"#),
            (r#"{"a":1}"#, "/b", r#"{"a":1}"#),
            (r#"{"a":[1]}"#, "/a/1/b", r#"{"a":[1]}"#),
            (r#"{"a":[{"b":1}]}"#, "/a/00/b", r#"{"a":[{"b":1}]}"#),
            ("7", "/a", "7"),
        ] {
            assert_eq!(without(json, at), left, "{at}");
        }
    }

    #[test]
    fn an_element_of_an_array_cannot_be_left_out() {
        let mut json = Json::parse(b"[1,2]").expect("JSON");
        assert!(pointer("/0").remove(&mut json).is_err());
    }

    #[test]
    fn refuses_what_is_no_pointer() {
        for bad in ["", "a", "#/a", "/a~", "/a~2"] {
            assert!(bad.parse::<Pointer>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tells_what_is_there() {
        let json = Json::parse(br#"{"to":[{"a/b":null}],"n":7}"#).expect("JSON");
        for (at, there) in
            [("/to", true), ("/to/0/a~1b", true), ("/to/1", false), ("/n", true), ("/n/x", false), ("/", false)]
        {
            assert_eq!(pointer(at).is_in(&json), there, "{at}");
        }
    }

    #[test]
    fn an_element_is_refused_by_its_name() {
        let mut json = Json::parse(br#"{"a":[1]}"#).expect("JSON");
        let refused = pointer("/a/0").remove(&mut json).expect_err("an element");
        assert!(refused.to_string().starts_with("/a/0 points to an element of an array"), "{refused}");
    }

    #[test]
    fn replaces_in_place() {
        let mut json = Json::parse(br#"{"card":{"n":[4]},"to":"x"}"#).expect("JSON");
        pointer("/card").replace(&mut json, "[redacted]").expect("a member");
        let mut text = String::new();
        json.write_compact(&mut text);
        assert_eq!(text, r#"{"card":"[redacted]","to":"x"}"#);
    }
}
