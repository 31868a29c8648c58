package event

import (
	"slices"
	"strconv"
	"strings"
)

// VersionNumbers are the numbers of a meta.version: major, minor and patch.
type VersionNumbers [3]uint32

// ParseVersion reads a semantic version of three numbers below a billion, without pre-release and
// build. It is false for any other text.
func ParseVersion(text string) (v VersionNumbers, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || n >= 1_000_000_000 || strconv.FormatUint(n, 10) != part {
			return VersionNumbers{}, false
		}
		v[i] = uint32(n)
	}
	return v, true
}

// Compare orders versions by major, minor and patch.
func (v VersionNumbers) Compare(other VersionNumbers) int { return slices.Compare(v[:], other[:]) }

// String is the inverse of ParseVersion.
func (v VersionNumbers) String() string {
	return strconv.Itoa(int(v[0])) + "." + strconv.Itoa(int(v[1])) + "." + strconv.Itoa(int(v[2]))
}
