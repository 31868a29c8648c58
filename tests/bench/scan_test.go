package bench

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-sql-driver/mysql"

	"bridge/tests/bench/report"
)

// scan measures one round of reading a table and dropping its rows, and returns the time in
// seconds.
func (b *bench) scan(table string, rows int) float64 {
	b.t.Helper()
	r := child(b.t, job{Do: "scan", DSN: b.db.dsn(), Table: table})
	if r.Count != int64(rows) {
		b.t.Fatalf("a scan of %d rows, want %d", r.Count, rows)
	}
	c := report.Case{Rows: rows}
	b.report.Add(report.Scan, c, report.Seconds, r.Seconds)
	b.report.Add(report.Scan, c, report.CPU, r.CPU/float64(rows)*1e6)
	b.report.Add(report.Scan, c, report.RowsASecond, float64(rows)/r.Seconds)
	b.report.Add(report.Scan, c, report.Allocs, float64(r.Mallocs)/float64(rows))
	b.screen.say("scanned %d rows: %.2f s, %.0f a second, %.2f allocations a row", rows, r.Seconds, float64(rows)/r.Seconds,
		b.report.Last(report.Scan, c, report.Allocs))
	return r.Seconds
}

// scanTable reads a table in the pages of bridge, by the driver itself as bridge does, without
// database/sql above it.
func scanTable(j job, begin func()) (count, size int64, err error) {
	config, err := mysql.ParseDSN(j.DSN)
	if err != nil {
		return 0, 0, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return 0, 0, err
	}
	conn, err := connector.Connect(context.Background())
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	begin()
	for last := uint64(0); ; {
		n, bytes, err := scanPage(conn.(driver.QueryerContext), j.Table, &last)
		count, size = count+n, size+bytes
		if err != nil || n == 0 {
			return count, size, err
		}
	}
}

// scanPage reads the page behind the id last and moves that.
func scanPage(conn driver.QueryerContext, table string, last *uint64) (count, size int64, err error) {
	rows, err := conn.QueryContext(context.Background(),
		fmt.Sprintf("SELECT * FROM %s WHERE id > %d ORDER BY id LIMIT %d", table, *last, batchRows), nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return count, size, nil
		} else if err != nil {
			return count, size, err
		}
		for _, v := range row {
			if text, ok := v.([]byte); ok {
				size += int64(len(text))
			}
		}
		if *last, err = idOf(row[0]); err != nil {
			return count, size, err
		}
		count++
	}
}

func idOf(v driver.Value) (uint64, error) {
	switch v := v.(type) {
	case int64:
		return uint64(v), nil
	case uint64:
		return v, nil
	case []byte:
		return strconv.ParseUint(string(v), 10, 64)
	}
	return 0, fmt.Errorf("the id is %v, want a number", v)
}
