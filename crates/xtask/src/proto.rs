//! Reads `proto/`: services with their calls, messages with their fields, and the comments that explain them.
//!
//! The files are ours and plain, so a reading by lines is enough: one declaration a line, its comment above it.

use crate::tree::Tree;

/// A gRPC service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) file: String,
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) request: String,
    pub(crate) response: String,
    pub(crate) about: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) about: String,
}

#[derive(Debug, Default)]
pub(crate) struct Proto {
    pub(crate) services: Vec<Service>,
    pub(crate) messages: Vec<Message>,
}

impl Service {
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.package, self.name)
    }

    /// The module of the generated code is `<this>_client` or `<this>_server`.
    pub(crate) fn module(&self) -> String {
        let mut module = String::new();
        for letter in self.name.chars() {
            if letter.is_uppercase() && !module.is_empty() {
                module.push('_');
            }
            module.extend(letter.to_lowercase());
        }
        module
    }
}

/// Reads all files below `proto/`.
pub(crate) fn read(tree: &Tree) -> Proto {
    let mut proto = Proto::default();
    for (path, text) in tree.below("proto/").filter(|(path, _)| path.ends_with(".proto")) {
        read_file(path, text, &mut proto);
    }
    proto
}

fn read_file(path: &str, text: &str, proto: &mut Proto) {
    let mut package = String::new();
    let mut about = String::new();
    let mut in_message = false;
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            // An empty comment line ends the paragraph that says what it is; details follow.
            about = match comment.trim() {
                "" => format!("{about}\n"),
                comment => format!("{about} {comment}"),
            };
            continue;
        }
        let about = std::mem::take(&mut about).lines().next().unwrap_or_default().trim().to_owned();
        if let Some(rest) = line.strip_prefix("package ") {
            package = rest.trim_end_matches(';').to_owned();
        } else if let Some(name) = opened(line, "service") {
            in_message = false;
            proto.services.push(Service {
                file: path.to_owned(),
                package: package.clone(),
                name,
                about,
                calls: Vec::new(),
            });
        } else if let Some(call) = line.strip_prefix("rpc ").and_then(|line| call(line, about.clone())) {
            if let Some(service) = proto.services.last_mut() {
                service.calls.push(call);
            }
        } else if let Some(name) = opened(line, "message") {
            in_message = true;
            proto.messages.push(Message { name, fields: Vec::new() });
        } else if opened(line, "enum").is_some() {
            in_message = false;
        } else if let Some(field) = field(line, about).filter(|_| in_message)
            && let Some(message) = proto.messages.last_mut()
        {
            message.fields.push(field);
        }
    }
}

/// The name in `<kind> <name> {`.
fn opened(line: &str, kind: &str) -> Option<String> {
    let rest = line.strip_prefix(kind)?.strip_prefix(' ')?;
    Some(rest.split([' ', '{']).next()?.to_owned())
}

/// `Name(Request) returns (stream Response);`
fn call(line: &str, about: String) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (request, rest) = rest.split_once(')')?;
    let (response, _) = rest.split_once('(')?.1.split_once(')')?;
    Some(Call { name: name.trim().to_owned(), request: short(request), response: short(response), about })
}

/// `kind name = 1;`
fn field(line: &str, about: String) -> Option<Field> {
    let (declared, _) = line.strip_suffix(';')?.split_once(" = ")?;
    let (kind, name) = declared.rsplit_once(' ')?;
    Some(Field { name: name.to_owned(), kind: kind.to_owned(), about })
}

/// A message's name without its package.
fn short(name: &str) -> String {
    let name = name.trim();
    let (stream, name) = name.strip_prefix("stream ").map_or(("", name), |name| ("stream ", name));
    format!("{stream}{}", name.rsplit('.').next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_fields_come_with_their_comments() {
        let text = "syntax = \"proto3\";\npackage a.v1;\n\n// The door.\n//\n// More.\nservice OrderApi {\n  // Makes one.\n  \
                    rpc Make(b.v1.MakeRequest) returns (stream MakeResponse);\n}\n\n// An enum.\nenum E {\n  // Zero.\n  E_ZERO = 0;\n}\n\
                    // Asks.\nmessage MakeRequest {\n  // How many.\n  int32 count = 1;\n}\n";
        let proto = read(&Tree::of(&[("proto/a.proto", text)]));
        let service = &proto.services[0];
        assert_eq!((service.full_name().as_str(), service.module().as_str()), ("a.v1.OrderApi", "order_api"));
        assert_eq!(service.about, "The door.");
        assert_eq!(service.calls[0].request, "MakeRequest");
        assert_eq!(service.calls[0].response, "stream MakeResponse");
        assert_eq!(service.calls[0].about, "Makes one.");
        let field = &proto.messages[0].fields[0];
        assert_eq!(
            (field.name.as_str(), field.kind.as_str(), field.about.as_str()),
            ("count", "int32", "How many.")
        );
        assert_eq!(proto.messages.len(), 1);
    }
}
