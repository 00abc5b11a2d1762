//! Specifications declared once: struct, JSON names, shape and limits from one text.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::schema;
use super::shape::{Shape, leaf, of};
use crate::text::TextMap;

/// Types that know their shape in a document.
pub(super) trait Shaped {
    const SHAPE: Shape;
}

/// Types of which some value says as much as an absent field; it is left out when written.
pub(super) trait Absent {
    fn is_absent(&self) -> bool;
}

impl<T: Shaped> Shaped for Option<T> {
    const SHAPE: Shape = T::SHAPE;
}

impl<T: Shaped> Shaped for Box<T> {
    const SHAPE: Shape = T::SHAPE;
}

impl<T: Shaped + 'static> Shaped for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);
}

impl Shaped for BTreeMap<String, String> {
    const SHAPE: Shape = Shape::TextMap;
}

impl Shaped for TextMap {
    const SHAPE: Shape = Shape::TextMap;
}

impl Shaped for String {
    const SHAPE: Shape = schema::TEXT;
}

/// A type that is read as a whole.
pub(super) const fn scalar<T: DeserializeOwned + Serialize>() -> Shape {
    leaf(of::<T>)
}

/// Gives scalar types their shape.
macro_rules! scalars {
    ($($type:ty),+ $(,)?) => { $(
        impl $crate::resource::model::Shaped for $type {
            const SHAPE: $crate::resource::shape::Shape = $crate::resource::model::scalar::<$type>();
        }
    )+ };
}
pub(super) use scalars;

scalars!(
    bool,
    u8,
    u16,
    u32,
    u64,
    i32,
    i64,
    f64,
    serde_json::Value,
    core::net::IpAddr,
    core::net::Ipv4Addr,
    core::net::Ipv6Addr,
    crate::net::AsNumber,
    crate::net::Cidr,
    crate::net::Dscp,
    crate::net::InterfaceName,
    crate::net::Mac,
    crate::net::Port,
    crate::net::Protocol,
);

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Absent for BTreeMap<K, V> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for TextMap {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for String {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A number that is not optional is always written.
impl Absent for i64 {
    fn is_absent(&self) -> bool {
        false
    }
}

impl Absent for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

/// Declares a struct of the API:
///
/// ```text
/// model! {
///     /// Specification of a `HostEndpoint`.
///     pub struct HostEndpointSpec: specification {
///         /// Host that has the interface.
///         "node" node: String, required where [Limit::Text(&NAME)];
///     }
/// }
/// ```
///
/// A field's text, flag, list or map that is empty, and an option that is none, is left out when written. After the type stand flags of
/// [`Field`](super::shape::Field), after `where` its limits, after `=` what is filled
/// in where it is absent. `specification` marks what stands in a document's `spec`, with the type of the status beside it.
macro_rules! model {
    (
        $(#[$doc:meta])*
        pub struct $name:ident $(: $role:ident $(($status:ty))?)? {
            $(
                $(#[$field_doc:meta])*
                $json:literal $field:ident : $type:ty
                    $(= $default:literal)? $(, $rule:ident)* $(where [$($limit:expr),+ $(,)?])?;
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[serde(rename = $json, skip_serializing_if = "crate::resource::model::Absent::is_absent")]
                pub $field: $type,
            )*
        }

        impl $name {
            const MODEL: &'static [$crate::resource::shape::Field] = &[
                $(
                    $crate::resource::shape::field($json, <$type as $crate::resource::model::Shaped>::SHAPE) $(.$rule())* $(.filled_with($default))? $(.limits(const { &[$($limit),+] }))?
                ),*
            ];
        }

        impl $crate::resource::model::Shaped for $name {
            const SHAPE: $crate::resource::shape::Shape = $crate::resource::shape::Shape::Struct(Self::MODEL);
        }

        /// A part that is not optional is always written.
        impl $crate::resource::model::Absent for $name {
            fn is_absent(&self) -> bool {
                false
            }
        }

        $($crate::resource::model::model!(@$role $name $($status)?);)?
    };
    (@specification $name:ident $($status:ty)?) => {
        impl $crate::resource::kinds::Specification for $name {
            const FIELDS: &'static [$crate::resource::shape::Field] = Self::MODEL;
            $(const STATUS: $crate::resource::shape::Shape = <$status as $crate::resource::model::Shaped>::SHAPE;)?
        }
    };
}
pub(super) use model;

/// Declares an enumeration of the API's words; a variant whose word is no name in Rust gives it after `=`.
macro_rules! words {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $( $(#[$variant_doc:meta])* $variant:ident $(= $word:literal)? ),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub enum $name { $( $(#[$variant_doc])* $(#[serde(rename = $word)])? $variant ),* }
        $crate::resource::model::scalars!($name);
    };
}
pub(super) use words;
