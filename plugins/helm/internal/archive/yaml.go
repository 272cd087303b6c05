package archive

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// Limits of YAML, found by measuring what the parser of Helm needs: nodes cost it up to 500 bytes each, and it does not count the bytes that
// aliases repeat: 100 KB with 900 aliases became 500 MB. Depth it bounds itself, to 10000, soon enough.
const (
	// maxNodes bounds a document with its aliases replaced.
	maxNodes = 300_000
	// fewEntries cost no more than that, whatever they are: at the worst 150 MB.
	fewEntries = 200_000
	// maxEntries bounds what is parsed here in order to count nodes. Much of it has to be text.
	maxEntries = 500_000
	// maxChartEntries bounds all documents of a chart, its sub-charts included: 10 MB of definitions have not as many.
	maxChartEntries = 2_000_000
	// maxExpandedBytes bounds a document with its aliases replaced: to what could be written without them.
	maxExpandedBytes = maxFileBytes
)

// checkYAML refuses documents that cost Helm's parser far more than their size. Others are for Helm to judge, even if they are no YAML.
func (b *budget) checkYAML(data []byte) error {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return invalid("is not in UTF-8")
	}
	if hasTagDirective(data) {
		return invalid("has a directive %%TAG, which no chart needs")
	}
	most, total := countEntries(data)
	if most > maxEntries {
		return exceeded("has a YAML document with %d entries; %d are allowed", most, maxEntries)
	}
	if err := b.spend(cost{nodes: total}); err != nil {
		return err
	}
	repeats := hasProperty(data, '&') && hasProperty(data, '*')
	if most <= fewEntries && !repeats {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return unreadable(err)
		}
		repeated, err := expand(&document)
		if err != nil {
			return err
		}
		if err := b.spend(repeated); err != nil {
			return err
		}
	}
}

// spend counts what a file costs towards the limits of the chart.
func (b *budget) spend(c cost) error {
	if b.entries -= c.nodes; b.entries < 0 {
		return exceeded("has too much YAML, together with other files: %d entries are allowed", maxChartEntries)
	}
	if b.bytes -= int64(c.bytes); b.bytes < 0 {
		return exceeded("repeats text by aliases: the chart unpacks to more than the %d bytes that are allowed", b.limits.UnpackedBytes)
	}
	return nil
}

// hasTagDirective tells whether there may be a directive %TAG. Helm's parser needs a time that is the square of their number, and repeats
// what one stands for with each use: 1 MB took a minute or 4 GB.
func hasTagDirective(data []byte) bool {
	const directive = "%TAG"
	for from := 0; ; {
		i := bytes.Index(data[from:], []byte(directive))
		if i < 0 {
			return false
		}
		i += from
		from = i + len(directive)
		if (i == 0 || data[i-1] == '\n' || data[i-1] == '\r' || foreign(data[i-1])) && (from == len(data) || blank(data[from])) {
			return true
		}
	}
}

// hasProperty tells whether there may be an anchor, or an alias, after its indicator.
func hasProperty(data []byte, indicator byte) bool {
	for from := 0; ; {
		i := bytes.IndexByte(data[from:], indicator)
		if i < 0 {
			return false
		}
		i += from
		from = i + 1
		if (i == 0 || blank(data[i-1]) || bytes.IndexByte([]byte("[]{},:?-"), data[i-1]) >= 0) && from < len(data) && !blank(data[from]) {
			return true
		}
	}
}

// countEntries returns a bound for the entries of lists and maps, of the largest document and of all, without parsing: each entry has at
// least one of the characters that are counted. What is in text is counted, too; lines that can only be comments or text are not.
func countEntries(data []byte) (most, total int) {
	count := 0
	for len(data) > 0 {
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line = data[:end+1]
		}
		data = data[len(line):]
		if bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || blank(line[3])) {
			count = 0
		}
		n := countInLine(line)
		count, total = count+n, total+n
		most = max(most, count)
	}
	return most, total
}

func countInLine(line []byte) int {
	if text := bytes.TrimLeft(line, " \t"); len(text) > 0 && text[0] == '#' {
		end := bytes.IndexFunc(text, func(r rune) bool { return r == '\r' || r >= 0x80 }) // may end the comment, not the line
		if end < 0 {
			return 0
		}
		line = text[end:]
	}
	count := 0
	for i, c := range line {
		switch c {
		case ',', '[', '{':
			count++
		case '-', ':', '?':
			if i+1 == len(line) || blank(line[i+1]) {
				count++
			}
		}
	}
	return count
}

// blank tells whether c may separate what is beside it.
func blank(c byte) bool { return c <= ' ' || foreign(c) }

// foreign tells whether c may be of a character outside of ASCII: some of these break lines.
func foreign(c byte) bool { return c >= 0x80 }

// expand bounds what a document is when its aliases are replaced, and returns what they repeat.
func expand(document *yaml.Node) (repeated cost, err error) {
	e := expansion{known: map[*yaml.Node]cost{}, open: map[*yaml.Node]bool{}}
	total, err := e.of(document)
	if err != nil {
		return cost{}, err
	}
	if total.nodes > maxNodes {
		return cost{}, exceeded("has a YAML document with more than %d nodes, those counted in that aliases repeat", maxNodes)
	}
	if total.bytes > maxExpandedBytes {
		return cost{}, exceeded("has a YAML document with more than %d bytes, those counted in that aliases repeat", maxExpandedBytes)
	}
	return cost{nodes: total.nodes - e.written.nodes, bytes: total.bytes - e.written.bytes}, nil
}

// cost is the number of nodes, and the bytes of their text.
type cost struct{ nodes, bytes int }

// expansion adds up what nodes cost.
type expansion struct {
	// known are the sums of nodes that can be repeated, and open those that are being added up.
	known map[*yaml.Node]cost
	open  map[*yaml.Node]bool
	// written is what the document consists of as it is.
	written cost
}

func (e *expansion) of(node *yaml.Node) (cost, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
		if e.open[node] {
			return cost{}, invalid("has an anchor that contains itself")
		}
		return e.known[node], nil // it comes after what it repeats
	}
	sum := cost{nodes: 1, bytes: len(node.Value)}
	e.written.nodes++
	e.written.bytes += len(node.Value)
	if node.Anchor != "" {
		e.open[node] = true
	}
	for _, inner := range node.Content {
		more, err := e.of(inner)
		if err != nil {
			return cost{}, err
		}
		// Beyond the limits the sum only has to stay there, and not to overflow.
		sum.nodes = min(sum.nodes+more.nodes, maxNodes+1)
		sum.bytes = min(sum.bytes+more.bytes, maxExpandedBytes+1)
	}
	if node.Anchor != "" {
		delete(e.open, node)
		e.known[node] = sum
	}
	return sum, nil
}
