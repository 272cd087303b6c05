package component

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// invalidf returns a *fetch.Error of the kind fetch.Invalid. The format is that of fmt.Errorf.
func invalidf(format string, args ...any) error { return fetch.Errorf(fetch.Invalid, format, args...) }

const (
	// maxShown bounds a text of a document in an error, in bytes.
	maxShown = 128
	// maxListed bounds the texts in the list of an error.
	maxListed = 20
)

// shown quotes a text of a document.
func shown(text string) string {
	if len(text) > maxShown {
		return strconv.Quote(text[:maxShown]) + "…"
	}
	return strconv.Quote(text)
}

// listed joins texts for an error.
func listed(texts []string) string {
	if more := len(texts) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:maxListed], ", "), more)
	}
	return strings.Join(texts, ", ")
}
