package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Metric is the value of a counter or a gauge of the host, summed up over its labels; 0 if there is none of the name.
func (h *Host) Metric(ctx context.Context, name string) (sum float64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read metric %s: %w", name, err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		series, value, _ := strings.Cut(scanner.Text(), " ") // plugins' names, the only labels, have no spaces
		if found, _, _ := strings.Cut(series, "{"); found != name {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += number
	}
	return sum, scanner.Err()
}
