//! Passwords: which secrets are wanted, and what is known of them.
//!
//! A password that is wanted and cannot be had keeps the session down (upstream brings it up without one).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use crate::bgp::{Password, Secret};
use crate::resource::BgpPassword;

/// Where a password is, if one is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum KeyRef {
    /// None is wanted.
    #[default]
    None,
    /// One is wanted, and nobody says where it is.
    Nowhere,
    /// In a secret, under a key.
    Key { secret: Arc<str>, key: Arc<str>, optional: bool },
}

/// What is known of secrets, by name.
#[derive(Clone, Default)]
pub(super) struct Secrets(BTreeMap<Arc<str>, Option<BTreeMap<String, String>>>);

impl KeyRef {
    pub(super) fn new(password: Option<&BgpPassword>) -> Self {
        let Some(password) = password else { return Self::None };
        match &password.secret_key_ref {
            Some(reference) if !reference.name.is_empty() => Self::Key {
                secret: reference.name.as_str().into(),
                key: reference.key.as_str().into(),
                optional: reference.optional == Some(true),
            },
            _ => Self::Nowhere,
        }
    }

    /// The secret, if one is named.
    pub(super) fn secret(&self) -> Option<&Arc<str>> {
        match self {
            Self::Key { secret, .. } => Some(secret),
            Self::None | Self::Nowhere => None,
        }
    }
}

impl Secrets {
    /// Takes in the new state of one. Tells whether it changed.
    pub(super) fn set(&mut self, name: &str, value: Option<BTreeMap<String, String>>) -> bool {
        if self.0.get(name) == Some(&value) {
            return false;
        }
        self.0.insert(name.into(), value);
        true
    }

    /// The password that a reference means.
    pub(super) fn password(&self, reference: &KeyRef) -> Password {
        let (secret, key, optional) = match reference {
            KeyRef::None => return Password::None,
            KeyRef::Nowhere => return Password::Missing("its password names no secret".into()),
            KeyRef::Key { secret, key, optional } => (secret, key, *optional),
        };
        let value = match self.0.get(secret) {
            // Whether it is there decides what is done, so nothing is done before that is known.
            None => return Password::Missing(format!("secret {secret} has not been read")),
            Some(None) => Err(format!("secret {secret} does not exist")),
            Some(Some(keys)) => keys.get(&**key).ok_or_else(|| format!("secret {secret} has no key {key}")),
        };
        match value {
            Ok(value) => match Secret::new(value.clone()) {
                Ok(secret) => Password::Key(secret),
                Err(error) => Password::Missing(format!("key {key} of secret {secret}: {error}")),
            },
            Err(_) if optional => Password::None,
            Err(reason) => Password::Missing(reason),
        }
    }
}

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::SecretKeyRef;

    #[test]
    fn a_password_that_cannot_be_had_is_missing_with_its_reason() {
        let mut secrets = Secrets::default();
        let reference = |key: &str, optional| {
            let reference = SecretKeyRef { name: "s".into(), key: key.into(), optional };
            KeyRef::new(Some(&BgpPassword { secret_key_ref: Some(reference) }))
        };
        let missing = |text: &str| Password::Missing(text.into());
        let (wanted, optional) = (reference("k", None), reference("k", Some(true)));
        assert_eq!(secrets.password(&KeyRef::new(None)), Password::None);
        assert_eq!(
            secrets.password(&KeyRef::new(Some(&BgpPassword::default()))),
            missing("its password names no secret")
        );
        assert_eq!(secrets.password(&wanted), missing("secret s has not been read"));
        assert_eq!(secrets.password(&optional), missing("secret s has not been read"));
        assert!(secrets.set("s", None) && !secrets.set("s", None));
        assert_eq!(secrets.password(&wanted), missing("secret s does not exist"));
        assert_eq!(secrets.password(&optional), Password::None);
        secrets.set("s", Some([("k".into(), "hunter2".into()), ("empty".into(), "".into())].into()));
        assert_eq!(secrets.password(&wanted), Password::Key(Secret::new("hunter2".into()).unwrap()));
        assert_eq!(secrets.password(&reference("other", None)), missing("secret s has no key other"));
        let empty = secrets.password(&reference("empty", Some(true)));
        assert_eq!(empty, missing("key empty of secret s: the password is empty"));
        assert_eq!(format!("{secrets:?}"), r#"{"s"}"#);
    }
}
