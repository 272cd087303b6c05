package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const row = "  %-10s %-46s %-12s %s\n"

// table shows deploy items and their phases. On a terminal it is drawn anew in place with each change; elsewhere each change of
// an item is a line.
type table struct {
	out      io.Writer
	terminal bool
	began    time.Time
	drawn    int               // lines of the table on the terminal
	seen     map[string]string // what was shown last, by item
	since    map[string]string // how long after the beginning that came
}

func newTable(out io.Writer) *table {
	file, ok := out.(*os.File)
	return &table{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// begin starts a new table.
func (t *table) begin() {
	t.began, t.drawn, t.seen, t.since = time.Now(), 0, map[string]string{}, map[string]string{}
	if !t.terminal {
		fmt.Fprintf(t.out, row, "ITEM", "TYPE", "PHASE", "AFTER")
	}
}

// show shows the items as they are now.
func (t *table) show(items []v1alpha1.DeployItem) {
	now := map[string]string{}
	changed := false
	for _, item := range items {
		now[item.Name] = phase(item)
		if t.seen[item.Name] != now[item.Name] {
			t.since[item.Name], changed = t.elapsed(), true
		}
	}
	for name := range t.seen {
		if _, there := now[name]; !there {
			changed = true
		}
	}
	if !changed {
		return
	}
	if t.terminal {
		t.redraw(items)
	} else {
		t.append(items, now)
	}
	t.seen = now
}

func (t *table) append(items []v1alpha1.DeployItem, now map[string]string) {
	for _, item := range items {
		if now[item.Name] != t.seen[item.Name] {
			fmt.Fprintf(t.out, row, item.Name, item.Spec.Type, now[item.Name], t.since[item.Name])
		}
	}
	for name := range t.seen {
		if _, there := now[name]; !there {
			fmt.Fprintf(t.out, row, name, "", "gone", t.elapsed())
		}
	}
}

func (t *table) redraw(items []v1alpha1.DeployItem) {
	var text strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\x1b[J", t.drawn)
	}
	fmt.Fprintf(&text, row, "ITEM", "TYPE", "PHASE", "AFTER")
	for _, item := range items {
		fmt.Fprintf(&text, row, item.Name, item.Spec.Type, phase(item), t.since[item.Name])
	}
	if len(items) == 0 {
		fmt.Fprintf(&text, row, "(all gone)", "", "", t.elapsed())
	}
	t.drawn = strings.Count(text.String(), "\n")
	fmt.Fprint(t.out, text.String())
}

func (t *table) elapsed() string {
	return fmt.Sprintf("%.1fs", time.Since(t.began).Seconds())
}

func phase(item v1alpha1.DeployItem) string {
	if item.Status.Phase == "" || item.Status.ObservedGeneration != item.Generation {
		return "(waiting)"
	}
	return string(item.Status.Phase)
}

func isNoMatch(err error) bool { return meta.IsNoMatchError(err) }
