//! `zonal layout`: the memory layout of hot structures, in the format of pahole(1).
//!
//! Prints offsets, sizes, holes and cache line boundaries.
use crate::terminal::stdout;
use anyhow::Result;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::process::ExitCode;
use zonal_blk::layout::{CACHE_LINE, StructLayout};

/// Prints the structures whose name contains `name`, or all.
pub fn run(name: Option<&str>) -> Result<ExitCode> {
    let wanted = |layout: &StructLayout| name.is_none_or(|name| layout.name.contains(name));
    let mut text = String::new();
    for layout in zonal_blk::hot_structs().iter().filter(|layout| wanted(layout)) {
        show(&mut text, "blk", layout, &[])?;
    }
    let (layout, fields) = zonal_nvme::ns::Namespace::layout();
    if wanted(&layout) {
        let fields = fields.iter().filter_map(|name| layout.field(name));
        let mut read: Vec<usize> = fields.flat_map(|field| layout.lines_of(field)).collect();
        read.dedup();
        let group = format!("nvme: {} cache lines read per command", read.len());
        show(&mut text, &group, &layout, &read)?;
    }
    anyhow::ensure!(
        !text.is_empty(),
        "no structure is called `{}`; `zonal layout` shows all",
        name.unwrap_or_default()
    );
    stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Shows one structure; `read` are the cache lines that making a command reads.
fn show(out: &mut String, group: &str, layout: &StructLayout, read: &[usize]) -> fmt::Result {
    writeln!(out, "{} {{  /* {group} */", layout.name)?;
    let mut line = 0;
    let mut holes = layout.holes().into_iter().peekable();
    let mark = |out: &mut String, line: usize| {
        let note = if read.contains(&line) { ", read by every command" } else { "" };
        writeln!(out, "    /* --- cache line {line}, byte {}{note} --- */", line * CACHE_LINE)
    };
    mark(out, 0)?;
    for field in &layout.fields {
        while let Some((at, len)) = holes.next_if(|(at, _)| *at < field.offset) {
            writeln!(out, "    /* {len} bytes hole at {at} */")?;
        }
        let first = *layout.lines_of(field).start();
        if first > line {
            line = first;
            mark(out, line)?;
        }
        writeln!(out, "    {:20} /* {:5} {:5} */", field.name, field.offset, field.size)?;
        let last = *layout.lines_of(field).end();
        if last > line && field.offset + field.size > last * CACHE_LINE {
            line = last;
            writeln!(out, "    /* --- cache line {line} begins inside {} --- */", field.name)?;
        }
    }
    for (at, len) in holes {
        writeln!(out, "    /* {len} bytes padding at {at} */")?;
    }
    let holes: usize = layout.holes().iter().map(|(_, len)| len).sum();
    let lines = layout.size.div_ceil(CACHE_LINE);
    let (size, align) = (layout.size, layout.align);
    writeln!(out, "}}  /* size {size}, align {align}, cache lines {lines}, unused {holes} */\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::layout::Field;

    #[test]
    fn holes_and_lines_stand_where_they_are() {
        let field = |name, offset, size| Field { name, offset, size };
        let fields = vec![field("a", 0, 1), field("b", 8, 60), field("c", 72, 4)];
        let layout = StructLayout { name: "S", size: 80, align: 8, fields };
        let mut text = String::new();
        show(&mut text, "test", &layout, &[1]).expect("text takes everything");
        let expected = "\
S {  /* test */
    /* --- cache line 0, byte 0 --- */
    a                    /*     0     1 */
    /* 7 bytes hole at 1 */
    b                    /*     8    60 */
    /* --- cache line 1 begins inside b --- */
    /* 4 bytes hole at 68 */
    c                    /*    72     4 */
    /* 4 bytes padding at 76 */
}  /* size 80, align 8, cache lines 2, unused 15 */

";
        assert_eq!(text, expected);
    }
}
