//! Where the fields of a structure lie in memory, as pahole(1) shows it.
//!
//! The list of fields must be complete; offsets and sizes are those of the compiler. Not used by
//! I/O.

/// The size of a cache line on the machines that the layouts are made for, in bytes.
pub const CACHE_LINE: usize = 64;

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// From the start of the structure, in bytes.
    pub offset: usize,
    /// In bytes.
    pub size: usize,
}

/// A structure in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// Its name.
    pub name: &'static str,
    /// In bytes.
    pub size: usize,
    /// In bytes.
    pub align: usize,
    /// All of its fields, by offset.
    pub fields: Vec<Field>,
}

impl StructLayout {
    /// The field called `name`, if there is one.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Bytes between fields that hold nothing, and after the last: offset and length.
    pub fn holes(&self) -> Vec<(usize, usize)> {
        let mut holes = Vec::new();
        let mut end = 0;
        for field in &self.fields {
            if field.offset > end {
                holes.push((end, field.offset - end));
            }
            end = end.max(field.offset + field.size);
        }
        if self.size > end {
            holes.push((end, self.size - end));
        }
        holes
    }

    /// The cache lines that a field touches, counted from the start of the structure.
    pub fn lines_of(&self, field: &Field) -> std::ops::RangeInclusive<usize> {
        field.offset / CACHE_LINE..=(field.offset + field.size.max(1) - 1) / CACHE_LINE
    }
}

/// The layout of a structure: `struct_layout!(Type { field, field, ... })`, with all fields named.
#[macro_export]
macro_rules! struct_layout {
    ($type:ident { $($field:ident),* $(,)? }) => {{
        /// The size of what a reference that a function gives points to.
        fn size<T, F>(_field: impl Fn(&T) -> &F) -> usize {
            std::mem::size_of::<F>()
        }
        // A field that is left out does not compile.
        let _all = |value: &$type| {
            let $type { $($field: _),* } = value;
        };
        let mut fields = vec![$($crate::layout::Field {
            name: stringify!($field),
            offset: std::mem::offset_of!($type, $field),
            size: size(|value: &$type| &value.$field),
        }),*];
        fields.sort_by_key(|field| (field.offset, field.size));
        $crate::layout::StructLayout {
            name: stringify!($type),
            size: std::mem::size_of::<$type>(),
            align: std::mem::align_of::<$type>(),
            fields,
        }
    }};
}

#[cfg(test)]
mod tests {
    #[repr(C)]
    struct Sample {
        a: u8,
        b: u32,
        c: [u8; 60],
        d: u16,
    }

    #[test]
    fn offsets_holes_and_lines_are_the_compilers() {
        let layout = struct_layout!(Sample { d, a, b, c });
        assert_eq!((layout.size, layout.align), (72, 4));
        let fields: Vec<_> = layout.fields.iter().map(|f| (f.name, f.offset, f.size)).collect();
        assert_eq!(fields, [("a", 0, 1), ("b", 4, 4), ("c", 8, 60), ("d", 68, 2)]);
        assert_eq!(layout.holes(), [(1, 3), (70, 2)]);
        assert_eq!(layout.lines_of(layout.field("c").unwrap()), 0..=1);
        assert_eq!(layout.lines_of(layout.field("d").unwrap()), 1..=1);
    }
}
