package chartsource

import (
	"bytes"
	"net/http"
	"strings"
)

// sniffed is how many bytes tell what a file is.
const sniffed = 512

// isGzip tells by its first bytes whether a file is one of gzip, with the one method of compression that there is.
func isGzip(begin []byte) bool {
	return bytes.HasPrefix(begin, []byte{0x1f, 0x8b, 0x08})
}

// describeContent says what a file seems to be, without repeating any of it.
func describeContent(begin []byte) string {
	if len(begin) == 0 {
		return "nothing"
	}
	kind, _, _ := strings.Cut(http.DetectContentType(begin[:min(len(begin), sniffed)]), ";")
	if kind == "application/octet-stream" {
		return "something unknown"
	}
	return kind
}

// head keeps the first bytes of what is written to it.
type head struct{ begin []byte }

func (h *head) Write(p []byte) (int, error) {
	h.begin = append(h.begin, p[:min(len(p), sniffed-len(h.begin))]...)
	return len(p), nil
}
