mod decision;
mod scenarios;
mod support;
mod twin;
