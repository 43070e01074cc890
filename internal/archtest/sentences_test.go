package archtest

import (
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The largest numbers of words in a sentence: of the guides, and of all other pages.
const (
	wordsOfGuides = 20
	wordsOfPages  = 25
)

var (
	codeSpan    = regexp.MustCompile("``.+?``|`[^`]*`")
	linkSpan    = regexp.MustCompile(`!?\[[^\]]*\]\([^)]*\)`)
	listItem    = regexp.MustCompile(`^(?:[-*]|\d+\.)\s+`)
	sentenceEnd = regexp.MustCompile(`[^.][.?!][)"*]*\s+`)
)

// TestSentencesAreShort checks the lengths of sentences in README.md and docs, except in generated
// pages. The guides, the tutorial, the recipes and the format of caches have the lower limit. Code,
// tables and headings do not count. A code span and a link are a word each.
func TestSentencesAreShort(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		list, err := filepath.Glob(filepath.Join(root, "docs", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, list...)
	}
	if len(pages) < 50 {
		t.Fatalf("%d pages", len(pages))
	}
	count := 0
	for _, page := range pages {
		name, _ := filepath.Rel(root, page)
		most := wordsOfPages
		switch dir := filepath.Base(filepath.Dir(name)); {
		case dir == "reference" || name == "docs/format/json.md":
			continue
		case dir == "guide" || name == "docs/tutorial.md" || name == "docs/recipes.md" || name == "docs/format/cache.md":
			most = wordsOfGuides
		}
		for line, paragraph := range paragraphs(readText(t, page)) {
			for sentence := range sentences(paragraph) {
				count++
				if n := wordCount(sentence); n > most {
					t.Errorf("%s:%d: %d words, expected at most %d: %s", name, line, n, most, sentence)
				}
			}
		}
	}
	if count < 3000 {
		t.Errorf("%d sentences, expected at least 3000", count)
	}
}

// TestSentencesAreSplit checks the splitting on a text whose sentences have a known length.
func TestSentencesAreSplit(t *testing.T) {
	t.Parallel()
	const text = "# Not counted at all\n\nOne `two words` [three and more](page.md#x).\nleat goes on\nhere " +
		"(in\nbrackets.) So\n- a first item;\n  it continues\n1. Really? Levels 2, 4 ... 64 - no end\n\n" +
		"| not | counted |\n```\nnor. this\n```\nLast."
	want := []int{3, 6, 1, 5, 1, 6, 1}
	var got []int
	for _, paragraph := range paragraphs(text) {
		for sentence := range sentences(paragraph) {
			got = append(got, wordCount(sentence))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("words by sentence: %v, expected %v", got, want)
	}
}

// paragraphs returns the paragraphs and list items of a Markdown text with the line at which each
// begins. Code spans are replaced by the word CODE and links by LINK.
func paragraphs(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		var lines []string
		begin, fenced := 0, false
		flush := func() bool {
			p := strings.Join(lines, " ")
			lines = nil
			p = linkSpan.ReplaceAllString(codeSpan.ReplaceAllString(p, "CODE"), "LINK")
			return p == "" || yield(begin, p)
		}
		number := 0
		for line := range strings.Lines(text) {
			number++
			line = strings.TrimSpace(line)
			fence := strings.HasPrefix(line, "```")
			switch {
			case fence, fenced, line == "", line[0] == '#', line[0] == '|', strings.HasPrefix(line, "<!--"):
				fenced = fenced != fence
				if !flush() {
					return
				}
				continue
			case listItem.MatchString(line):
				if !flush() {
					return
				}
				line = listItem.ReplaceAllString(line, "")
			}
			if len(lines) == 0 {
				begin = number
			}
			lines = append(lines, line)
		}
		flush()
	}
}

// sentences returns the sentences of a paragraph. An ellipsis ends none.
func sentences(paragraph string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for paragraph != "" {
			at := sentenceEnd.FindStringIndex(paragraph)
			if at == nil {
				at = []int{0, len(paragraph)}
			}
			if !yield(strings.TrimSpace(paragraph[:at[1]])) {
				return
			}
			paragraph = paragraph[at[1]:]
		}
	}
}

// wordCount returns the number of words that have a letter or a digit.
func wordCount(sentence string) int {
	n := 0
	for _, word := range strings.Fields(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}
