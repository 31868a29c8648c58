package mysql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"bridge/internal/option"
	"bridge/source"
)

// Server errors by number: https://mariadb.com/kb/en/mariadb-error-codes/ and MySQL's Server Error
// Reference.
const (
	erDBAccessDenied    = 1044
	erNoDB              = 1046
	erBadDB             = 1049
	erBadField          = 1054
	erTableAccessDenied = 1142
	erColAccessDenied   = 1143
	erNoSuchTable       = 1146
	erLockWait          = 1205
	erDeadlock          = 1213
	erInterrupted       = 1317

	erStatementTimeMariaDB = 1969
	erStatementTime        = 3024

	erKeyDoesNotExist = 1176

	erWrongNumberOfColumns = 1222
	erOperandColumns       = 1241
	erViewInvalid          = 1356
)

var (
	// errCut tells that a page was complete before its result was: the connection is closed instead
	// of drained.
	errCut = errors.New("result cut")
	// errStale tells that a page's types are not those that the columns were read for.
	errStale  = errors.New("the columns of the table changed")
	errNoHead = errors.New("the server's answer lacks its clock")
	// errNoDatabase is for a table whose database neither TABLE nor the source's URL names.
	errNoDatabase = option.Errorf("%w: the table has no database: write %s as database.table or put the database into %s",
		source.ErrMissing, option.Table, option.SourceURL)
)

// number returns the server's error number, 0 when err is no error of the server.
func number(err error) uint16 {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// isDataError reports whether the server cannot evaluate an expression for a value: a data
// exception of the SQL standard.
func isDataError(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && strings.HasPrefix(string(refused.SQLState[:]), "22")
}

// mayBeStale reports whether err can come from columns or indexes that changed since they were
// read.
func mayBeStale(err error) bool {
	switch number(err) {
	case erBadField, erKeyDoesNotExist, erColAccessDenied, erWrongNumberOfColumns, erOperandColumns:
		return true
	}
	return errors.Is(err, errStale)
}

// explain gives what a person has to mend the sentinel of its class and the remedy. Other errors
// are transient and stay.
func (s *shard) explain(err error) error {
	switch number(err) {
	case erNoSuchTable, erBadDB, erNoDB:
		return option.Errorf("%w: %w: create the table, or correct %s or the database in %s",
			source.ErrMissing, err, option.Table, option.SourceURL)
	case erBadField:
		return fmt.Errorf("%w: %w", source.ErrMissing, err)
	case erTableAccessDenied, erColAccessDenied, erDBAccessDenied:
		return fmt.Errorf("%w: %w: let an administrator run: %s", source.ErrDenied, err, s.grant())
	case erViewInvalid:
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	if s.spec.Filter != "" && isDataError(err) {
		return option.Errorf("%w: %w: have the condition %s accept every value of its columns", source.ErrUnfit, err, option.Filter)
	}
	return err
}

// grant returns the statement that gives the login what it needs.
func (s *shard) grant() string {
	account := "'" + s.source.options.User + "'@'%'"
	if server := s.source.connector.server.Load(); server != nil {
		if at := strings.LastIndexByte(server.account, '@'); at >= 0 {
			account = quoteText(server.account[:at]) + "@" + quoteText(server.account[at+1:])
		}
	}
	return "GRANT SELECT ON " + s.table.quoted() + " TO " + account
}

func quoteText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
