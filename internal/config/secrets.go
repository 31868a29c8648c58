package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// readSecretFiles sets NAME to the contents of every NAME_FILE, so that the secret is checked as if
// it stood in the environment.
func (l *loader) readSecretFiles() {
	for _, v := range globalVariables() {
		if !v.secret {
			continue
		}
		path, inFile := l.env[v.Name+fileSuffix]
		value, inEnvironment := l.env[v.Name]
		switch {
		case inFile && inEnvironment:
			l.add(v.Name, "is set, and so is %s: unset one of them", v.Name+fileSuffix)
		case inFile:
			text, err := readSecretFile(v.Name+fileSuffix, path)
			if err != nil {
				l.add(v.Name+fileSuffix, "%v", err)
				continue
			}
			l.env[v.Name], value = text, text
		}
		if isWhole(v.Name) {
			l.secrets.add(value)
		}
	}
}

// secret returns a function that returns the secret of a variable as it is at each call.
func (l *loader) secret(variable string) Secret {
	path, inFile := l.env[variable+fileSuffix]
	if !inFile {
		value := l.env[variable]
		return func() (string, error) { return value, nil }
	}
	secrets := l.secrets
	return func() (string, error) {
		text, err := readSecretFile(variable+fileSuffix, path)
		if err != nil {
			return "", fmt.Errorf("%s %w", variable+fileSuffix, err)
		}
		if isWhole(variable) {
			secrets.add(text)
		}
		return text, nil
	}
}

// isWhole reports whether the whole value of a variable is a secret, not a part of it.
func isWhole(variable string) bool {
	return variable == passwordVariable || variable == HTTPTokenVariable
}

// readSecretFile returns the contents of a file without the line end after it. The error does not
// hold the path: it may be the secret itself, written there by mistake.
func readSecretFile(variable, path string) (string, error) {
	text, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("names a file that cannot be read (%w): name a file that bridge may read and that holds the value of %s",
			err, strings.TrimSuffix(variable, fileSuffix))
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New("names a file that is empty: write the secret into it")
	}
	return secret, nil
}

// maxFile bounds what is read of a file that is none of ours after all.
const maxFile = 1 << 20

// readFile returns the contents of a file with a secret or a certificate. The error does not hold
// the path.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case !info.Mode().IsRegular():
		// Reading a device or a pipe could last for ever.
		return nil, errors.New("no regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	text, err := os.ReadFile(path)
	return text, withoutPath(err)
}

// withoutPath returns what is wrong with a file without its path.
func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
