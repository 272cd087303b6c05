package statuspage

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"strings"
	"time"
)

//go:embed assets
var assets embed.FS

// refreshSeconds is how often a browser looks again, until somebody stops it.
const refreshSeconds = 5

// overview is what the template of the page is given.
type overview struct {
	*Status

	Refresh int
}

// InAll is how many jobs are under way, shown or not.
func (o overview) InAll() int { return len(o.InProgress) + o.MoreInProgress }

// pages are what is served.
type pages struct {
	overview *template.Template
	style    []byte
}

func newPages() (*pages, error) {
	style, err := fs.ReadFile(assets, "assets/style.css")
	if err != nil {
		return nil, fmt.Errorf("read style of the status page: %w", err)
	}
	page, err := template.New("overview.html").Funcs(template.FuncMap{
		"age":   age,
		"short": func(sum string) string { return sum[:min(len(sum), 12)] },
		"mebi":  func(b uint64) uint64 { return (b + 1<<19) >> 20 },
		"join":  strings.Join,
	}).ParseFS(assets, "assets/overview.html")
	if err != nil {
		return nil, fmt.Errorf("parse the template of the status page: %w", err)
	}
	return &pages{overview: page, style: style}, nil
}

// render carries out a template as a whole, so that an error does not end in half a page.
func render(t *template.Template, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("render the status page: %w", err)
	}
	return out.Bytes(), nil
}

// age is how long ago something was, as people say it. What is in the future by another clock is now.
func age(now, at time.Time) string { return short(max(0, now.Sub(at))) }

// short writes a duration with two digits or two units.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
