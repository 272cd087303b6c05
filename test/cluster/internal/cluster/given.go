package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// assetsEnv names a directory with programs that somebody has already, as everybody knows it who uses envtest.
const assetsEnv = "KUBEBUILDER_ASSETS"

// oldestMinor is the oldest Kubernetes 1.X that Pergola supports, which the chart says too.
const oldestMinor = 29

// reported finds the version in what kube-apiserver --version prints.
var reported = regexp.MustCompile(`\bv1\.(\d+)\.\d+\S*`)

// CheckComplete returns an error that names the programs of a cluster that $KUBEBUILDER_ASSETS lacks, if it is set.
// That of envtest has no node's, and no controllers.
func (p *Programs) CheckComplete() error {
	if p.given == "" {
		return nil
	}
	return p.checkGiven(parts)
}

// useGiven checks that $KUBEBUILDER_ASSETS has a control plane in a version that is supported, and says to out which.
func (p *Programs) useGiven(ctx context.Context, out io.Writer) error {
	if err := p.checkGiven(parts[:1]); err != nil {
		return err
	}
	printed, err := exec.CommandContext(ctx, filepath.Join(p.given, "kube-apiserver"), "--version").Output()
	if err != nil {
		return fmt.Errorf("find the version of %s: %w", p.given, err)
	}
	match := reported.FindSubmatch(printed)
	if match == nil {
		return fmt.Errorf("find the version of %s: its kube-apiserver says %q", p.given, printed)
	}
	if minor, err := strconv.Atoi(string(match[1])); err != nil || minor < oldestMinor {
		return fmt.Errorf("%s has Kubernetes %s, and Pergola needs 1.%d or newer: %s",
			p.given, match[0], oldestMinor, p.advice())
	}
	const found = "Using Kubernetes %s of $%s; 1.%d and newer are supported, and %s is what is built without it.\n"
	_, _ = fmt.Fprintf(out, found, match[0], assetsEnv, oldestMinor, p.version)
	return nil
}

// checkGiven returns an error that names what of the parts is missing in $KUBEBUILDER_ASSETS.
func (p *Programs) checkGiven(parts []part) error {
	if !filepath.IsAbs(p.given) {
		return fmt.Errorf("$%s is %q, and must be an absolute path", assetsEnv, p.given)
	}
	var missing []string
	for _, part := range parts {
		for _, name := range slices.Concat(part.programs, part.others) {
			if _, err := os.Stat(filepath.Join(p.given, name)); err != nil {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %s: %s", p.given, strings.Join(missing, ", "), p.advice())
	}
	return nil
}

func (p *Programs) advice() string {
	return fmt.Sprintf("unset %s, and Kubernetes %s is built", assetsEnv, p.version)
}
