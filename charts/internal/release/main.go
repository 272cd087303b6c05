package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
)

// options are the options of the command line.
type options struct {
	images, chart, helm string
	changelog           string
	version, revision   string
	created             int64
	out, push           string
}

func (o options) date() time.Time { return time.Unix(o.created, 0).UTC() }

func main() {
	o := options{}
	flag.StringVar(&o.images, "images", "bin/image", "directory with the images, as make image leaves them there")
	flag.StringVar(&o.chart, "chart", "", "file of the chart, as make chart has packed it")
	flag.StringVar(&o.helm, "helm", "bin/tools/helm", "the program for the push of the chart")
	flag.StringVar(&o.changelog, "changelog", "CHANGELOG.md", "the changelog, with a dated section of the version")
	flag.StringVar(&o.version, "version", "", "version of the release and tag of the images")
	flag.StringVar(&o.revision, "revision", "", "commit of the release")
	flag.Int64Var(&o.created, "created", 0, "seconds since 1970 until that commit: the date of all files")
	flag.StringVar(&o.out, "out", "bin/release", "directory for the release; its content is removed first")
	flag.StringVar(&o.push, "push", "",
		"where to push the chart to, below which it is charts/pergola, such as registry.example.org/team; empty for nowhere")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// release is a release so far.
type release struct {
	options options

	platforms, archives []string
	images              []image
	programs            []program
}

// run makes the files, and pushes the chart if it is to.
func run(ctx context.Context, o options) error {
	err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)) //nolint:gosec // a release is for everybody
	if err != nil {
		return fmt.Errorf("empty directory of the release: %w", err)
	}
	r := release{options: o}
	for _, name := range []string{hostImage, "container-helper"} {
		if err := r.addImage(name); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	for _, add := range []func() error{r.addChart, r.addDefinitions, r.addBOM, r.addPage, r.addSums} {
		if err := add(); err != nil {
			return err
		}
	}
	if o.push == "" {
		return nil
	}
	return r.pushChart(ctx)
}

func (r *release) path(file string) string { return filepath.Join(r.options.out, file) }

func (r *release) write(file string, content []byte) error {
	return os.WriteFile(r.path(file), content, 0o644) //nolint:gosec // the command line says where
}

func (r *release) chartFile() string { return filepath.Base(r.options.chart) }

// addChart packs the chart anew, since Helm writes the date into it. The file has the date of the commit, because Helm
// notes its date in the registry.
func (r *release) addChart() error {
	packed, err := os.ReadFile(r.options.chart)
	if err != nil {
		return fmt.Errorf("read chart: %w", err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpack chart %s: %w", r.options.chart, err)
	}
	files, err := unpack(unzipped)
	if err != nil {
		return fmt.Errorf("chart %s: %w", r.options.chart, err)
	}
	date, to := r.options.date(), r.path(r.chartFile())
	return errors.Join(pack(to, date, files), os.Chtimes(to, date, date))
}

// addDefinitions adds the CustomResourceDefinitions, as pergola crds prints them.
func (r *release) addDefinitions() error {
	definitions, err := crds.Manifests()
	if err != nil {
		return err
	}
	return r.write("crds.yaml", bytes.Join(definitions, nil))
}

// pushChart copies the chart to a registry, with the credentials of helm registry login or docker login, and without
// TLS where make image does.
func (r *release) pushChart(ctx context.Context) error {
	to := strings.TrimSuffix(r.options.push, "/") + "/charts"
	repository, err := name.NewRepository(to)
	if err != nil {
		return fmt.Errorf("push chart to %s: %w", to, err)
	}
	arguments := []string{"push", r.path(r.chartFile()), "oci://" + to}
	if repository.Scheme() == "http" {
		arguments = append(arguments, "--plain-http")
	}
	helm := exec.CommandContext(ctx, r.options.helm, arguments...) //nolint:gosec // they are ours
	helm.Stdout, helm.Stderr = os.Stdout, os.Stderr
	if err := helm.Run(); err != nil {
		return fmt.Errorf("push chart to %s: %w", to, err)
	}
	return nil
}
