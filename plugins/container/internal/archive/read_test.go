package archive_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"a": []byte("one"), "dir/b": []byte("two"), "dir/sub/c": {}}
	packed, err := archive.FromFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	got, err := archive.Files(archive.Join(archive.Split(packed)))
	if diff := cmp.Diff(files, got); err != nil || diff != "" {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	var refused *archive.Error
	if _, err := archive.Files(bytes.NewReader(packed[:len(packed)/2])); !errors.As(err, &refused) || refused.Kind != archive.Damaged {
		t.Errorf("found %v for half an archive", err)
	}
}
