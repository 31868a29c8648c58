package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"bridge/source/mysql"
)

const (
	sourceVariable = prefix + "SOURCE_URL"
	mysqlExample   = "mysql://user:password@host:3306/database"
)

// source judges BRIDGE_SOURCE_URL.
func (l *loader) source() Source {
	text := l.env[sourceVariable]
	if text == "" || l.has(sourceVariable) {
		return Source{}
	}
	scheme, _, ok := l.cutScheme(sourceVariable, text, sourceSchemes, mysqlExample)
	if !ok {
		return Source{}
	}
	options, err := parseMySQL(text)
	if err != nil {
		l.add(sourceVariable, "%v", err)
		return Source{}
	}
	options.Password = l.mysqlPassword()
	// It cannot fail so shortly after the parse; a file that changed meanwhile shows at the connect.
	_, _ = options.Password()
	return Source{
		Scheme: scheme,
		Addr:   net.JoinHostPort(options.Host, strconv.Itoa(cmp.Or(options.Port, 3306))),
		MySQL:  options,
	}
}

// mysqlPassword returns a function that returns the password of the URL as it is at each call. Of a file that changes, only
// the password is taken up.
func (l *loader) mysqlPassword() func() (string, error) {
	secret, secrets := l.secret(sourceVariable), l.secrets
	return func() (string, error) {
		text, err := secret()
		if err != nil {
			return "", err
		}
		options, err := parseMySQL(text)
		if err != nil {
			return "", fmt.Errorf("%s %w", sourceVariable, err)
		}
		if options.Password == nil {
			return "", nil
		}
		password, err := options.Password()
		secrets.add(password)
		return password, err
	}
}

// parseMySQL parses mysql://user:password@host:port/database?tls=…. The error quotes neither login nor host.
func parseMySQL(text string) (mysql.Options, error) {
	if u, err := url.Parse(text); err == nil && strings.ContainsAny(u.EscapedPath(), "@:") {
		// The password held a slash, which ended the host too early.
		return mysql.Options{}, fmt.Errorf("has an @ or a : behind the host: write %s; %s", mysqlExample, encoding)
	}
	return mysql.ParseURL(text)
}

// judgeDatabase finds tables without a database where the URL names none either.
func (l *loader) judgeDatabase(cfg *Config) {
	if cfg.Source.Scheme == "" || cfg.Source.MySQL.Database != "" {
		return
	}
	for _, s := range cfg.Streams {
		for _, table := range s.Tables {
			if !strings.Contains(table, ".") {
				l.add(sourceVariable, "names no database, and %sTABLE has a table without one: write %s, or db.table", variablePrefix(s.Name), mysqlExample)
				return
			}
		}
	}
}
