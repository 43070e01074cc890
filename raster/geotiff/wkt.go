package geotiff

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/raster"
)

// wktNode is one element of a WKT: KEYWORD["text", value, NODE[...]].
type wktNode struct {
	keyword string   // in upper case
	values  []string // texts without quotes, and numbers
	nodes   []*wktNode
}

const maxWKTDepth = 32

// parseWKT parses a WKT of version 1 or 2.
func parseWKT(text string) (*wktNode, error) {
	n, rest, err := parseWKTNode(text, 0)
	if err == nil && strings.TrimSpace(rest) != "" {
		err = errWKT
	}
	return n, err
}

var errWKT = errors.New("not well-formed WKT")

func parseWKTNode(text string, depth int) (n *wktNode, rest string, err error) {
	text = strings.TrimLeft(text, " \t\r\n")
	end := strings.IndexAny(text, "[(\",])")
	if end < 1 || text[end] != '[' && text[end] != '(' || depth > maxWKTDepth {
		return nil, "", errWKT
	}
	n = &wktNode{keyword: strings.ToUpper(strings.TrimSpace(text[:end]))}
	closing := map[byte]byte{'[': ']', '(': ')'}[text[end]]
	for text = text[end:]; ; {
		text = strings.TrimLeft(text[1:], " \t\r\n")
		at := strings.IndexAny(text, "[(\",])")
		switch {
		case at < 0:
			return nil, "", errWKT
		case text[at] == '"' && at == 0:
			var value strings.Builder
			for text = text[1:]; ; text = text[1:] {
				quote := strings.IndexByte(text, '"')
				if quote < 0 {
					return nil, "", errWKT
				}
				value.WriteString(text[:quote])
				if text = text[quote+1:]; !strings.HasPrefix(text, `"`) { // a quote is written twice
					break
				}
				value.WriteByte('"')
			}
			n.values = append(n.values, value.String())
		case text[at] == '[' || text[at] == '(':
			child, after, err := parseWKTNode(text, depth+1)
			if err != nil {
				return nil, "", err
			}
			n.nodes = append(n.nodes, child)
			text = after
		default:
			if value := strings.TrimSpace(text[:at]); value != "" {
				n.values = append(n.values, value)
			}
			text = text[at:]
		}
		text = strings.TrimLeft(text, " \t\r\n")
		switch {
		case text == "":
			return nil, "", errWKT
		case text[0] == closing:
			return n, text[1:], nil
		case text[0] != ',':
			return nil, "", errWKT
		}
	}
}

// child returns the first node with one of the keywords, nil if there is none.
func (n *wktNode) child(keywords ...string) *wktNode {
	for _, c := range n.nodes {
		if slices.Contains(keywords, c.keyword) {
			return c
		}
	}
	return nil
}

// name returns the text at the start of a node.
func (n *wktNode) name() string {
	if n == nil || len(n.values) == 0 {
		return ""
	}
	return n.values[0]
}

// number returns the i-th value as a number, NaN if it is not one.
func (n *wktNode) number(i int) float64 {
	if n == nil || i >= len(n.values) {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(n.values[i], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// epsg returns EPSG's code of a node, 0 if it gives none.
func (n *wktNode) epsg() int {
	if n == nil {
		return 0
	}
	a := n.child("AUTHORITY", "ID")
	if a == nil || len(a.values) < 2 || !strings.EqualFold(a.values[0], "EPSG") {
		return 0
	}
	code, err := strconv.Atoi(a.values[1])
	if err != nil || code < 0 || code > math.MaxUint16 {
		return 0
	}
	return code
}

// parts returns the horizontal and the vertical part of a system. vertical is nil if there is none.
func (n *wktNode) parts() (horizontal, vertical *wktNode) {
	if n.keyword != "COMPD_CS" && n.keyword != "COMPOUNDCRS" {
		return n, nil
	}
	if len(n.nodes) < 2 {
		return nil, nil
	}
	return n.nodes[0], n.nodes[1]
}

// crsOfWKT returns the system of a WKT, with the code of its horizontal part.
func crsOfWKT(wkt string) raster.CRS {
	c := raster.CRS{WKT: wkt}
	n, err := parseWKT(wkt)
	if err != nil {
		return c
	}
	c.Name = n.name()
	if h, _ := n.parts(); h.epsg() != 0 {
		c.Code = fmt.Sprintf("EPSG:%d", h.epsg())
	}
	return c
}
