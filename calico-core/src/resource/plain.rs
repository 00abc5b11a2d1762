//! Stored text straight to typed objects: the fast way for kinds of which a cluster has hundreds of thousands.
//!
//! What comes in is the text of a document; what goes out is the object that [`Resource::decode`] would make of its JSON, or nothing
//! where somebody has to look more closely. It must never be the other way round, so everything that the slow way treats specially
//! is an error here: a list where a mapping belongs (serde would take it for a struct), a number that was perhaps rounded, also in
//! fields that nobody knows; and such a field itself in the specification of a workload endpoint, of which the status tells. Bad text, bad values, nulls and what is nested too deep are errors of serde's own.

use core::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::de::SliceRead;

use super::check::{self, Strictness};
use super::{Kind, Resource};

impl Resource {
    /// Reads the text of a stored document, if it is in order throughout and of a kind that this is for: the object that
    /// [`decode`](Self::decode) makes of the same, in a fraction of the time. That none comes says nothing about the text.
    pub fn decode_text(kind: Kind, text: &[u8]) -> Option<Self> {
        fn of<T: DeserializeOwned>(text: &[u8], wrap: fn(T) -> Resource) -> Option<Resource> {
            let mut json = serde_json::Deserializer::new(SliceRead::new(text));
            let object = T::deserialize(Plain(&mut json, Unknown::Passed)).ok()?;
            json.end().ok().map(|()| wrap(object))
        }
        // Kinds without rules or a name of their own in an annotation: those are looked at as a whole.
        let resource = match kind {
            Kind::WorkloadEndpoint => of(text, Self::WorkloadEndpoint),
            Kind::Node => of(text, Self::Node),
            Kind::IpamBlock => of(text, Self::IpamBlock),
            Kind::BlockAffinity => of(text, Self::BlockAffinity),
            _ => None,
        }?;
        check::all(&resource, Strictness::Stored).is_ok().then_some(resource)
    }
}

/// Reads only what needs no second look. All that is read through it is, to any depth.
struct Plain<T>(T, Unknown);

/// The specification whose unknown members the slow way notes, for the status to name them.
const TOLD_OF: &str = "WorkloadEndpointSpec";

/// What a member that nobody knows means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Passed,
    /// The document needs a closer look.
    Odd,
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Plain(visitor, self.1))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Plain<D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
    }

    /// A mapping, never a list.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let unknown = if name == TOLD_OF { Unknown::Odd } else { self.1 };
        self.0.deserialize_map(Plain(visitor, unknown))
    }

    /// What nobody knows is looked through all the same.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        if self.1 == Unknown::Odd {
            return Err(D::Error::custom("a member that nobody knows"));
        }
        self.0.deserialize_any(Plain(IgnoredAny, self.1))?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Plain<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<V::Value, E> {
        Err(E::custom("a number that may have been rounded"))
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Plain(deserializer, self.1))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Plain(deserializer, self.1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Plain(access, self.1))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Plain(access, self.1))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Plain(access, self.1))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Plain<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Plain(deserializer, self.1))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Plain<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Plain(seed, self.1))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Plain<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(Plain(seed, self.1))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Plain(seed, self.1))
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Plain<A> {
    type Error = A::Error;
    type Variant = Plain<A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        self.0.variant_seed(Plain(seed, self.1)).map(|(value, variant)| (value, Plain(variant, self.1)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Plain<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.0.newtype_variant_seed(Plain(seed, self.1))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Plain(visitor, self.1))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Plain(visitor, self.1))
    }
}

#[cfg(test)]
mod tests;
