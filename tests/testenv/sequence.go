package testenv

import (
	"fmt"
	"strings"
)

// Sequence returns a derived table for FROM with one column seq and the rows 1 to n, in no order,
// as MariaDB and MySQL both read it. n is at most 100 million.
func Sequence(n int) string {
	seq, digits := "1", []string{"(SELECT 0) AS one"}
	for unit := 1; unit < n; unit *= 10 {
		seq += fmt.Sprintf(" + %d * d%d.d", unit, unit)
		digits = append(digits, fmt.Sprintf("(SELECT 0 AS d%s) AS d%d", strings.Join([]string{
			"", "1", "2", "3", "4", "5", "6", "7", "8", "9",
		}, " UNION ALL SELECT "), unit))
	}
	return fmt.Sprintf("(SELECT seq FROM (SELECT %s AS seq FROM %s) AS numbers WHERE seq <= %d) AS sequence", seq, strings.Join(digits, " CROSS JOIN "), n)
}
