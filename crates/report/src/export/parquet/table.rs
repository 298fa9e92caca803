//! A table of typed columns -> a Parquet file.
//!
//! In: rows, and for each column its name and what it reads off a row. The type of the cells gives the column's type, and
//! whether it may be null. Out: the bytes of the file, compressed with LZ4, with strings by dictionary.
//!
//! <https://parquet.apache.org/docs/file-format/>.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

/// Rows that are written at once. A reader takes a group a thread, and skips groups by their least and greatest values.
const GROUP_ROWS: usize = 1 << 20;

/// A cell's type in the file.
pub(super) trait Cell {
    type Stored: DataType;
    const IS_NULLABLE: bool = false;

    /// What readers take it for, if not for a plain number.
    fn meaning() -> Option<LogicalType> {
        None
    }

    fn stored(self) -> Option<<Self::Stored as DataType>::T>;
}

macro_rules! plain {
    ($($type:ty => $stored:ty;)*) => {
        $(impl Cell for $type {
            type Stored = $stored;

            fn stored(self) -> Option<Self> {
                Some(self)
            }
        })*
    };
}

plain! {
    bool => BoolType;
    f64 => DoubleType;
    i32 => Int32Type;
    i64 => Int64Type;
}

impl Cell for ByteArray {
    type Stored = ByteArrayType;

    fn meaning() -> Option<LogicalType> {
        Some(LogicalType::String)
    }

    fn stored(self) -> Option<Self> {
        Some(self)
    }
}

/// An instant, microseconds since 1970 in UTC.
pub(super) struct Micros(pub(super) i64);

impl Cell for Micros {
    type Stored = Int64Type;

    fn meaning() -> Option<LogicalType> {
        Some(LogicalType::timestamp(true, TimeUnit::MICROS))
    }

    fn stored(self) -> Option<i64> {
        Some(self.0)
    }
}

impl<C: Cell> Cell for Option<C> {
    type Stored = C::Stored;
    const IS_NULLABLE: bool = true;

    fn meaning() -> Option<LogicalType> {
        C::meaning()
    }

    fn stored(self) -> Option<<C::Stored as DataType>::T> {
        self.and_then(C::stored)
    }
}

/// Writes the cells of some rows into a column.
type Write<'a, R> = Box<dyn Fn(&mut SerializedColumnWriter<'_>, &[R]) -> Result<()> + 'a>;

/// A column.
pub(super) struct Column<'a, R> {
    field: Result<Type>,
    write: Write<'a, R>,
}

/// The column of this name, and what it holds of a row.
pub(super) fn column<'a, R, C: Cell>(name: &str, cell: impl Fn(&R) -> C + 'a) -> Column<'a, R> {
    let repetition = if C::IS_NULLABLE { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(name, C::Stored::get_physical_type())
        .with_repetition(repetition)
        .with_logical_type(C::meaning())
        .build();
    let write = move |out: &mut SerializedColumnWriter<'_>, rows: &[R]| {
        let cells: Vec<_> = rows.iter().map(|row| cell(row).stored()).collect();
        let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        let levels = C::IS_NULLABLE.then_some(levels.as_slice());
        let values: Vec<_> = cells.into_iter().flatten().collect();
        out.typed::<C::Stored>().write_batch(&values, levels, None).map(drop)
    };
    Column { field, write: Box::new(write) }
}

/// The file of a table; `notes` are its key-value metadata.
///
/// # Errors
/// The library refuses the columns or a value.
pub(super) fn file<R>(
    name: &str,
    columns: Vec<Column<'_, R>>,
    rows: &[R],
    notes: &[(&str, &str)],
) -> io::Result<Vec<u8>> {
    bytes(name, columns, rows, notes).map_err(io::Error::other)
}

fn bytes<R>(name: &str, columns: Vec<Column<'_, R>>, rows: &[R], notes: &[(&str, &str)]) -> Result<Vec<u8>> {
    let (fields, writes): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|column| (column.field, column.write)).unzip();
    let fields = fields.into_iter().map(|field| field.map(Arc::new)).collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let notes = notes.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_created_by(concat!("faultless version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(notes.collect()))
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = file.next_row_group()?;
        for write in &writes {
            let missing = || ParquetError::General("a column of the schema is missing".to_owned());
            let mut column = group.next_column()?.ok_or_else(missing)?;
            write(&mut column, rows)?;
            column.close()?;
        }
        group.close()?;
    }
    file.into_inner()
}
