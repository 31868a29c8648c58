package verify

import "encoding/json"

// eachMember calls each with the name and the value of every member of an object, as they stand,
// until it returns false. The document must be valid JSON. It reports false when object is no
// object.
func eachMember(object []byte, each func(name, value []byte) bool) bool {
	i := skipBlank(object, 0)
	if i >= len(object) || object[i] != '{' {
		return false
	}
	for i = skipBlank(object, i+1); i < len(object) && object[i] == '"'; {
		end := skipValue(object, i)
		name := object[i:end]
		i = skipBlank(object, skipBlank(object, end)+1)
		end = skipValue(object, i)
		if !each(name, object[i:end]) {
			return true
		}
		if i = skipBlank(object, end); object[i] == ',' {
			i = skipBlank(object, i+1)
		}
	}
	return true
}

// eachElement calls each with every element of an array. It reports false when array is none.
func eachElement(array []byte, each func(value []byte)) bool {
	i := skipBlank(array, 0)
	if i >= len(array) || array[i] != '[' {
		return false
	}
	for i = skipBlank(array, i+1); array[i] != ']'; {
		end := skipValue(array, i)
		each(array[i:end])
		if i = skipBlank(array, end); array[i] == ',' {
			i = skipBlank(array, i+1)
		}
	}
	return true
}

func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// unquote returns the text of a JSON string; ok is false for a value that is no string.
func unquote(v []byte) (text []byte, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return nil, false
	}
	inner := v[1 : len(v)-1]
	for _, c := range inner {
		if c == '\\' {
			var s string
			err := json.Unmarshal(v, &s)
			return []byte(s), err == nil
		}
	}
	return inner, true
}
