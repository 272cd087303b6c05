package document

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// DidYouMean returns a hint for the text about an unknown field, such as "; did you mean updateStrategy?"; empty
// without a similar field. path leads from a value of the type to the unknown field.
func DidYouMean(t reflect.Type, path string) string {
	const longest = 1000 // a longer path costs time, and is no slip of the hand
	if len(path) > longest {
		return ""
	}
	if name := similarField(t, path); name != "" {
		return "; did you mean " + name + "?"
	}
	return ""
}

func similarField(t reflect.Type, path string) string {
	for t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	switch {
	case readsItself(t) || path == "":
		return ""
	case t.Kind() == reflect.Struct:
		known, end := fieldsOf(t), strings.IndexAny(path+".", ".[")
		if field, ok := known[path[:end]]; ok {
			return similarField(field, strings.TrimPrefix(path[end:], "."))
		}
		return similar(path, slices.Sorted(maps.Keys(known)))
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		_, rest, _ := strings.Cut(path, "]")
		return similarField(t.Elem(), strings.TrimPrefix(rest, "."))
	case t.Kind() == reflect.Map:
		for i, char := range path { // a key may have dots and brackets, too
			if char != '.' && char != '[' {
				continue
			}
			if name := similarField(t.Elem(), strings.TrimPrefix(path[i:], ".")); name != "" {
				return name
			}
		}
	}
	return ""
}

// similar returns the one name most similar to a mistyped one: they differ in at most a third of the characters of the
// longer one, or in one character. Case does not matter.
func similar(mistyped string, names []string) string {
	found, least := "", len(mistyped)
	for _, name := range names {
		most := max(len(mistyped)/3, len(name)/3, 1)
		if len(mistyped)-len(name) > most || len(name)-len(mistyped) > most {
			continue
		}
		switch d := distance(strings.ToLower(mistyped), strings.ToLower(name)); {
		case d > most || d > least:
		case d < least:
			found, least = name, d
		default:
			found = "" // another one is as likely
		}
	}
	return found
}

// distance counts the inserted, removed, replaced and exchanged characters between two texts.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
