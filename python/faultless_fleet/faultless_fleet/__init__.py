"""What page faults cost a fleet: questions in SQL over Parquet records of faultless, answered by DuckDB or Spark."""
