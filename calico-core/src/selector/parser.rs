//! Tokens to tree, by recursive descent: `||` binds loosest, then `&&`, then `!`.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::ast::{Node, Test};
use super::error::{Problem, SelectorError};
use super::lexer::{Lexer, Operator, Token};

/// Most bytes of a selector. Upstream's parser has no limit; its schemas limit fields to 1024 characters.
pub(super) const MAX_LENGTH: usize = 65_536;

/// Deepest nesting of `&&` and `||` in each other; bounds the stack that evaluation and printing need.
pub(super) const MAX_DEPTH: usize = 100;

/// Deepest nesting of parentheses as written. The canonical form of a selector that is [`MAX_DEPTH`] deep stays below it.
const MAX_PARENTHESES: usize = 200;

/// Parses a whole selector. Blank text means `all()`.
pub(super) fn parse(text: &str) -> Result<Node, SelectorError> {
    if text.len() > MAX_LENGTH {
        return Err(SelectorError::new(MAX_LENGTH, Problem::TooLong { limit: MAX_LENGTH }));
    }
    let mut lexer = Lexer::new(text);
    let (position, token) = lexer.next()?;
    let mut parser = Parser { lexer, position, token };
    if parser.token == Token::End {
        return Ok(Node::All);
    }
    let tree = parser.or(0)?;
    match parser.token {
        Token::End => Ok(tree.node),
        _ => Err(parser.expected("'&&', '||' or the end")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    position: usize,
    token: Token<'a>,
}

/// A node and how many `&&` and `||` nodes the longest path through it has.
struct Tree {
    node: Node,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<(), SelectorError> {
        (self.position, self.token) = self.lexer.next()?;
        Ok(())
    }

    fn expected(&self, what: &'static str) -> SelectorError {
        SelectorError::syntax(self.position, what, self.token.describe())
    }

    fn or(&mut self, parentheses: usize) -> Result<Tree, SelectorError> {
        let first = self.and(parentheses)?;
        self.chain(first, Token::Or, Node::Or, |parser| parser.and(parentheses))
    }

    fn and(&mut self, parentheses: usize) -> Result<Tree, SelectorError> {
        let first = self.operation(parentheses)?;
        self.chain(first, Token::And, Node::And, |parser| parser.operation(parentheses))
    }

    fn chain(
        &mut self,
        first: Tree,
        separator: Token<'a>,
        join: fn(Vec<Node>) -> Node,
        mut operand: impl FnMut(&mut Self) -> Result<Tree, SelectorError>,
    ) -> Result<Tree, SelectorError> {
        if self.token != separator {
            return Ok(first);
        }
        let start = self.position;
        let mut depth = first.depth;
        let mut operands = vec![first.node];
        while self.token == separator {
            self.advance()?;
            let next = operand(self)?;
            depth = depth.max(next.depth);
            operands.push(next.node);
        }
        if depth >= MAX_DEPTH {
            return Err(SelectorError::new(start, Problem::TooDeep { limit: MAX_DEPTH }));
        }
        Ok(Tree { node: join(operands), depth: depth + 1 })
    }

    fn operation(&mut self, parentheses: usize) -> Result<Tree, SelectorError> {
        let mut negated = false;
        while self.token == Token::Not {
            negated = !negated;
            self.advance()?;
        }
        let mut tree = self.primary(parentheses)?;
        if negated {
            tree.node = Node::Not(Box::new(tree.node));
        }
        Ok(tree)
    }

    fn primary(&mut self, parentheses: usize) -> Result<Tree, SelectorError> {
        let node = match self.token {
            Token::OpenParenthesis => return self.parenthesised(parentheses + 1),
            Token::All => Node::All,
            Token::Global => Node::Global,
            Token::Has(label) => Node::Has(label.into()),
            Token::Label(label) => {
                self.advance()?;
                return Ok(Tree { node: Node::Test(label.into(), self.test()?), depth: 0 });
            }
            _ => return Err(self.expected("a label, '!', '(', has(), all() or global()")),
        };
        self.advance()?;
        Ok(Tree { node, depth: 0 })
    }

    fn parenthesised(&mut self, parentheses: usize) -> Result<Tree, SelectorError> {
        if parentheses > MAX_PARENTHESES {
            return Err(SelectorError::new(self.position, Problem::TooDeep { limit: MAX_PARENTHESES }));
        }
        self.advance()?;
        let tree = self.or(parentheses)?;
        if self.token != Token::CloseParenthesis {
            return Err(self.expected("'&&', '||' or ')'"));
        }
        self.advance()?;
        Ok(tree)
    }

    fn test(&mut self) -> Result<Test, SelectorError> {
        let Token::Operator(operator) = self.token else {
            return Err(self.expected("an operator (==, !=, in, not in, contains, starts with, ends with)"));
        };
        self.advance()?;
        Ok(match operator {
            Operator::Equal => Test::Equal(self.text()?),
            Operator::NotEqual => Test::NotEqual(self.text()?),
            Operator::Contains => Test::Contains(self.text()?),
            Operator::StartsWith => Test::StartsWith(self.text()?),
            Operator::EndsWith => Test::EndsWith(self.text()?),
            Operator::In => Test::In(self.set()?),
            Operator::NotIn => Test::NotIn(self.set()?),
        })
    }

    fn text(&mut self) -> Result<Arc<str>, SelectorError> {
        let Token::Text(text) = self.token else { return Err(self.expected("a quoted string")) };
        self.advance()?;
        Ok(text.into())
    }

    fn set(&mut self) -> Result<Vec<Arc<str>>, SelectorError> {
        if self.token != Token::OpenBrace {
            return Err(self.expected("'{'"));
        }
        self.advance()?;
        let mut values: Vec<Arc<str>> = Vec::new();
        while let Token::Text(text) = self.token {
            values.push(text.into());
            self.advance()?;
            if self.token != Token::Comma {
                break;
            }
            self.advance()?;
        }
        if self.token != Token::CloseBrace {
            return Err(self.expected("a quoted string, ',' or '}'"));
        }
        self.advance()?;
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}
