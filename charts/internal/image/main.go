package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// options are the options of the command line.
type options struct {
	programs, platforms string
	version, revision   string
	created             int64
	out, push           string
}

func main() {
	o := options{}
	flag.StringVar(&o.programs, "programs", "bin/image/programs",
		"directory with the programs of each platform, as linux/amd64/pergola and linux/amd64/plugins/helm")
	flag.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64", "platforms of the images")
	flag.StringVar(&o.version, "version", "", "version: the tag of the images")
	flag.StringVar(&o.revision, "revision", "", "commit of the programs")
	flag.Int64Var(&o.created, "created", 0, "seconds since 1970 until that commit: the images' date")
	flag.StringVar(&o.out, "out", "bin/image", "directory for the images, each a layout in a directory of its own")
	flag.StringVar(&o.push, "push", "",
		"where to push the images to, such as registry.example.org/team; empty for nowhere")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run makes the images, writes them, and pushes them if it is to.
func run(ctx context.Context, o options) error {
	for _, d := range definitions {
		index, err := assemble(ctx, d, o)
		if err == nil {
			err = write(index, filepath.Join(o.out, d.name), d.name, o.version)
		}
		if err == nil && o.push != "" {
			err = push(ctx, index, strings.TrimSuffix(o.push, "/")+"/"+d.name+":"+o.version)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", d.name, err)
		}
	}
	return nil
}

func (o options) date() time.Time { return time.Unix(o.created, 0).UTC() }

// write writes an image as an OCI layout. The tag is its name there; containerd and Docker call it localhost/NAME:TAG.
func write(index v1.ImageIndex, dir, image, tag string) error {
	if err := os.RemoveAll(dir); err != nil { // blobs of an earlier build
		return fmt.Errorf("remove layout: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "localhost/" + image + ":" + tag,
	}))
}

// silence bounds the time without any progress of a push, report is the interval of reports about it.
const (
	silence = time.Minute
	report  = 5 * time.Second
)

// push copies an image to a registry, with the credentials of docker login. It gives up if the registry takes nothing
// for some time.
func push(ctx context.Context, index v1.ImageIndex, to string) error {
	tag, err := name.NewTag(to)
	if err != nil {
		return fmt.Errorf("push to %s: %w", to, err)
	}
	fmt.Printf("Pushing %s\n", to) //nolint:forbidigo // it takes minutes
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	updates := make(chan v1.Update, 1)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow(updates, func() { cancel(fmt.Errorf("the registry has taken nothing for %s", silence)) })
	}()
	err = remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithProgress(updates))
	<-followed // WriteIndex closes updates
	if err != nil {
		return fmt.Errorf("push to %s: %w", to, err)
	}
	digest, err := index.Digest()
	fmt.Printf("%s@%s\n", to, digest) //nolint:forbidigo // what is to be deployed
	return err
}

// follow prints the progress of a push until its end, and calls stalled if there is none for the time of silence.
func follow(updates <-chan v1.Update, stalled func()) {
	ticker, stall := time.NewTicker(report), time.AfterFunc(silence, stalled)
	defer ticker.Stop()
	defer stall.Stop()
	var last v1.Update
	for {
		select {
		case update, open := <-updates:
			if !open {
				return
			}
			last = update
			stall.Reset(silence)
		case <-ticker.C:
			fmt.Printf("  %d of %d MiB\n", last.Complete>>20, last.Total>>20) //nolint:forbidigo // it takes minutes
		}
	}
}
