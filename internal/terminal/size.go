package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Size returns the columns and rows of the terminal that w is; ok is false where it is none, or
// does not say.
func Size(w io.Writer) (columns, rows int, ok bool) {
	file, is := w.(*os.File)
	if !is {
		return 0, 0, false
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
