package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// readSecretFiles puts the contents of every NAME_FILE in the place of NAME, so that the secret is judged as if it stood in
// the environment.
func (l *loader) readSecretFiles() {
	for _, v := range globalVariables() {
		if !v.secret {
			continue
		}
		path, inFile := l.env[v.name+fileSuffix]
		value, inEnvironment := l.env[v.name]
		switch {
		case inFile && inEnvironment:
			l.add(v.name, "is set, and so is %s: unset one of them", v.name+fileSuffix)
		case inFile:
			text, err := readSecretFile(v.name+fileSuffix, path)
			if err != nil {
				l.add(v.name+fileSuffix, "%v", err)
				continue
			}
			l.env[v.name], value = text, text
		}
		if v.name == passwordVariable {
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
		if variable == passwordVariable {
			secrets.add(text)
		}
		return text, nil
	}
}

// maxSecret bounds what is read of a file that is not a secret after all.
const maxSecret = 1 << 20

// readSecretFile returns the contents of a file without the line end behind it. The error does not hold the path: somebody
// may have written the secret in its place.
func readSecretFile(variable, path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || info.Size() > maxSecret) {
		return "", errors.New("names something that is no file with a secret: name a file with the secret and nothing else")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("names a file that cannot be read (%s): name a file that bridge may read and that holds the value of %s",
			reason(err), strings.TrimSuffix(variable, fileSuffix))
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New("names a file that is empty: write the secret into it")
	}
	return secret, nil
}

// reason returns what is wrong with a file without its path.
func reason(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err.Error()
	}
	return "it fails to open"
}
