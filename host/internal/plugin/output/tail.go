package output

import "strings"

const (
	tailLines = 20
	// tailLine bounds a line of the tail, so that all of them are less than 16 KiB.
	tailLine = 800
)

// tail is the last lines of a plugin. It allocates nothing once it is full, because every line of a flood passes through it.
type tail struct {
	ring [tailLines][]byte
	next int
}

func (t *tail) add(text []byte) {
	slot := &t.ring[t.next%tailLines]
	*slot = append((*slot)[:0], text[:min(len(text), tailLine)]...)
	t.next++
}

// lines returns them, oldest first.
func (t *tail) lines() []string {
	var list []string
	for i := max(t.next-tailLines, 0); i < t.next; i++ {
		text := clean(t.ring[i%tailLines])
		list = append(list, strings.ToValidUTF8(text[:min(len(text), tailLine)], "")) // a clean text may be longer than it was
	}
	return list
}
