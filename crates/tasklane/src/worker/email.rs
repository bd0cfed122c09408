//! `email`: a message by SMTP as a task.

use std::sync::Arc;

use anyhow::Context as _;
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::Error;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde::Deserialize;
use tasklane_client::worker::{Context, TaskError};

use super::settings::EmailSettings;
use crate::ending::usage;

/// Names the server, with user and password, where no file should.
const SERVER: &str = "TASKLANE_SMTP_SERVER";

/// A message to send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Letter {
    to: Recipients,
    subject: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    html: Option<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    reply_to: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Recipients {
    One(String),
    Many(Vec<String>),
}

/// Sends messages through one server.
pub(super) struct Sender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Option<Mailbox>,
}

impl Sender {
    pub(super) fn new(settings: &EmailSettings) -> anyhow::Result<Self> {
        let named = std::env::var(SERVER).ok().filter(|server| !server.is_empty());
        let server = match (named, &settings.server, &settings.server_file) {
            (Some(server), ..) => server,
            (None, Some(server), None) => server.clone(),
            (None, None, Some(file)) => {
                let text = std::fs::read_to_string(file);
                text.with_context(|| format!("cannot read {}", file.display()))?.trim().to_owned()
            }
            (None, Some(_), Some(_)) => return Err(usage("email: give server or server_file")),
            (None, None, None) => {
                return Err(usage(format!(
                    "email needs a server: set {SERVER}=smtps://user:password@mail.example.org, or \
                     [email] server in the file"
                )));
            }
        };
        // What is wrong with it is not repeated: it holds a password.
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(&server);
        let transport = transport.map_err(|_| {
            usage("email: the server is not an address such as smtps://user:password@mail.example.org")
        })?;
        let from = settings.from.as_deref().map(str::parse).transpose();
        let from = from.map_err(|_| usage("email: from is not an address of mail"))?;
        Ok(Self { transport: transport.build(), from })
    }

    pub(super) async fn run(
        self: Arc<Self>,
        context: Context,
        letter: Letter,
    ) -> Result<(), TaskError> {
        let message = self.message(&context, letter)?;
        match self.transport.send(message).await {
            Ok(_) => Ok(()),
            Err(error) => Err(refused(&error)),
        }
    }

    fn message(&self, context: &Context, letter: Letter) -> Result<Message, TaskError> {
        let wrong = |what: &str| TaskError::permanent(what).with_code("invalid-message");
        let mailbox = |text: &str, what| text.parse::<Mailbox>().map_err(|_| wrong(what));
        let from = match &letter.from {
            Some(from) => mailbox(from, "from: not an address of mail")?,
            None => self.from.clone().ok_or_else(|| wrong("from: nobody is said to send it"))?,
        };
        let domain = from.email.domain().to_owned();
        // The same for every attempt, so that one who gets it twice can tell.
        let id = format!("<{}@{domain}>", context.id());
        let mut message =
            Message::builder().from(from).subject(letter.subject).message_id(Some(id));
        let to = match letter.to {
            Recipients::One(to) => vec![to],
            Recipients::Many(to) => to,
        };
        for to in &to {
            message = message.to(mailbox(to, "to: not an address of mail")?);
        }
        if let Some(reply_to) = &letter.reply_to {
            message = message.reply_to(mailbox(reply_to, "reply_to: not an address of mail")?);
        }
        let message = match (letter.text, letter.html) {
            (Some(text), Some(html)) => {
                message.multipart(MultiPart::alternative_plain_html(text, html))
            }
            (Some(text), None) => message.body(text),
            (None, Some(html)) => {
                message.header(lettre::message::header::ContentType::TEXT_HTML).body(html)
            }
            (None, None) => return Err(wrong("give text, html or both")),
        };
        message.map_err(|error| wrong(&format!("it cannot be written: {error}")))
    }
}

/// What the server refuses for good, it refuses again.
fn refused(error: &Error) -> TaskError {
    let code = error.status().map(|status| format!("smtp-{status}"));
    let code = code.unwrap_or_else(|| "unreachable".to_owned());
    let failed = match error.is_permanent() {
        true => TaskError::permanent(error.to_string()),
        false => TaskError::transient(error.to_string()),
    };
    failed.with_code(code)
}
